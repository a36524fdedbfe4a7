"""Tasks per second of all methods."""

from repri.experiments.speed import machine


def test_speed_of_every_method(quick):
    table = quick.outputs["table6"].table
    rows = dict(table.rows)
    for name in ("Prototype", "RePRI"):
        whole, stored, miou = rows[name][:3]
        assert 0 < whole.ours < stored.ours  # features take time
        assert 0 <= miou.ours <= 100
    assert rows["RePRI"][0].paper == 12.8
    assert rows["PFENet"][2].paper == 60.8
    assert table.facts["machine"] == machine()
