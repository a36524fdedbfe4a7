"""``repri serve``."""

from typer.testing import CliRunner

from repri.cli import app
from repri.runtime.errors import RepriError


def test_the_folder_must_be_there(tmp_path):
    result = CliRunner().invoke(app, ["serve", str(tmp_path / "nothing"), "--port", "0", "--extractor", "filters"])
    assert isinstance(result.exception, RepriError)
    assert "There is no folder" in str(result.exception)


def test_what_is_printed(tmp_path, monkeypatch):
    import repri.web.serve as serve

    def run(folder, host, port, extractor, ready):
        ready(serve.Address("http://10.0.0.1:8000/?token=abc", "abc"), 12)
        return serve.Latency(80.4, 120.0)

    monkeypatch.setattr(serve, "run", run)
    result = CliRunner().invoke(app, ["serve", str(tmp_path), "--host", "10.0.0.1"])
    assert "images   12" in result.output
    assert "http://10.0.0.1:8000/?token=abc" in result.output
    assert "token of this server" in result.output
    assert "latency  80 ms from a stroke to its result, p95 120 ms" in result.output
