"""``repri evaluate`` from end to end."""

import pytest

from repri.evaluation.results import load_result
from tests.data.make import tiny_pascal


def test_the_result_is_printed_and_written(repri, short, tmp_path):
    done = repri("evaluate", *short, "--output", tmp_path / "x.json")
    assert done.code == 0, done.err
    assert "repri, 1-shot, protocol clean, refine guided" in done.out
    assert f"written: {tmp_path}/x.json" in done.out.replace("\n", "")
    assert max(map(len, done.out.splitlines()[:-1])) <= 80
    assert load_result(tmp_path / "x.json")["timing"]["processes"] == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--method", "repry"), "There is no method named 'repry', did you mean 'repri'"),
        (("--method", "pfenet"), "The method pfenet has to be trained before it can be used"),
        (("--method", "panet", "--method-weights", "no.safetensors"), "There is no weights file at no.safetensors"),
        (("--shots", "20"), "and 20 shots need 21: use fewer shots"),
        (("--shots", "one"), "--shots must be a list (whole numbers), got 'one'"),
        (("--set", "lrr=1"), "There is no inference setting named 'lrr', did you mean 'lr'"),
        (("--set", "lr"), "--set takes NAME=VALUE, such as --set lr=0.05, got 'lr'"),
        (("--protocol", "pure"), "There is no protocol named 'pure'. Known: clean, paper, official"),
        (("--fold", "7"), "made has the folds 0 to 1, not 7"),
        (("--output", "/proc/x/y.json"), "Cannot write /proc/x/y.json"),
        (("--test-data", "mars"), "to mars is not known: only coco to pascal is"),
        (("--test-root", "/nowhere"), "test_root is the folder of another data set to test on"),
        (("--task-list", "list.json", "--seed", "3"), "--runs: the task list list.json says this itself; leave it out"),
        (("--min-pixels", "0"), "min_pixels must be at least 1, got 0"),
        (("--extractor", "nosuch"), "There is no extractor named 'nosuch'"),
        (("--shifts", "3"), "3 shifts do not divide"),
    ],
)
def test_mistakes_are_found_before_any_work(repri, short, tmp_path, more, message):
    done = repri("evaluate", *short, "--output", tmp_path / "x.json", *more)
    assert done.code == 1, done.err
    assert message in done.err
    assert done.err.startswith("repri: ")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "cache" / "features").exists()
    if "nosuch" in message:
        assert not (tmp_path / "cache" / "index").exists()  # not even the masks were counted


def test_settings_from_yaml_and_flags(repri, short, textures, tmp_path):
    config, output = tmp_path / "config.yaml", tmp_path / "x.json"
    config.write_text(
        f"data: {{name: {textures}, min_pixels: 200, folds: 1}}\ntasks: {{tasks: 4, runs: 1, shots: 1}}\n"
        "extractor: {name: filters, size: 64, shifts: 2}\nmethod: {settings: {steps: 3}}\n"
    )
    more = ("--method", "repri-oracle", "--set", "delta=0.5", "--tasks", 2, "--output", output)
    done = repri("evaluate", "--config", config, *more)
    assert done.code == 0, done.err
    resolved = load_result(output)["config"]
    assert (resolved["tasks"]["tasks"], resolved["tasks"]["shots"], resolved["data"]["folds"]) == (2, 1, [1])
    assert (resolved["method"]["name"], resolved["method"]["settings"]["delta"]) == ("repri-oracle", 0.5)
    assert resolved["extractor"]["shifts"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tsks: {}\n", "config.yaml: unknown setting 'tsks', did you mean 'tasks'"),
        ("fold: 0\n", "config.yaml: 'fold' is now 'data.folds'"),
        ("shots: 1\n", "config.yaml: 'shots' is now 'tasks.shots'"),
        ("set: {steps: 3}\n", "config.yaml: 'set' is now 'method.settings'"),
        ("tasks: {shots: one}\n", "config.yaml: 'tasks.shots' must be a list (whole numbers), got 'one'"),
        ("method: {settings: 3}\n", "config.yaml: 'method.settings' must be"),
    ],
)
def test_mistakes_in_a_file_name_the_file(repri, tmp_path, text, message):
    (tmp_path / "config.yaml").write_text(text)
    done = repri("evaluate", "--config", tmp_path / "config.yaml")
    assert done.code == 1
    assert message in done.err


def test_each_number_of_shots_has_a_file_of_its_own(repri, short, tmp_path):
    done = repri("evaluate", *short, "--shots", "1,2", "--fold", 0, "--method", "prototype", "--output", tmp_path / "x")
    assert done.code == 0, done.err
    assert [load_result(tmp_path / f"x-{k}shot.json")["shots"] for k in (1, 2)] == [1, 2]


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_sentence(repri, tmp_path, monkeypatch):
    monkeypatch.setenv("REPRI_CACHE", str(tmp_path / "cache"))
    folder = tiny_pascal(tmp_path / "pascal", classes=range(1, 6))
    few = ("--root", folder, "--fold", 0, "--tasks", 2, "--runs", 1, "--min-pixels", 1, "--size", 64, "--output")
    done = repri("evaluate", "--extractor", "default", *few, tmp_path / "x.json")
    assert done.code == 0, done.err
    assert "repri: warning: Fold 0 tests " in done.err
    assert "which are not novel to default: it was trained with their labels. Use an extractor that was not" in done.err
    assert "UserWarning" not in done.err
    assert "not novel to the extractor, which was trained with their labels" in " ".join(done.out.split())
    assert load_result(tmp_path / "x.json")["seen"]["0"]
    honest = repri("evaluate", *few, tmp_path / "y.json")
    assert honest.code == 0, honest.err
    assert "warning" not in honest.err
    assert load_result(tmp_path / "y.json")["extractor"]["0"]["name"] == "default-fold0"
