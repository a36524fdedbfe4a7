"""How long missing cells take."""

from repri.experiments.estimate import estimate


def test_seconds_come_from_measured_tasks(quick, lab_of, tmp_path):
    cells = quick.works["table5"].cells[:4]
    spent = estimate(lab_of(tmp_path), cells)
    assert set(spent.seconds) == set(cells)
    assert spent.images == 0  # the quick run has stored them
    for cell in cells:
        assert spent.seconds[cell] == spent.per_task[cell.way.method, cell.shots] * cell.runs * cell.tasks > 0
    assert spent.total == sum(spent.seconds.values())
    assert not list(tmp_path.iterdir())
