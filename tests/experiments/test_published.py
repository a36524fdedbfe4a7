"""The paper's numbers add up, apart from the exceptions that the file lists."""

import pytest

from repri.experiments.published import published, published_names
from repri.runtime.errors import RepriError


@pytest.mark.parametrize("name", published_names())
def test_means_are_those_of_the_folds_or_listed(name):
    table = published(name)
    wrong = {}
    for row in table.rows:
        for shots in (1, 5, 10):
            numbers = row.get(shots)
            if isinstance(numbers, list) and None not in numbers:
                assert len(numbers) == 5
                mean = sum(numbers[:4]) / 4
                if abs(mean - numbers[4]) > 0.05 + 1e-9:
                    wrong[row["method"], row["backbone"], shots] = (numbers[4], round(mean + 1e-9, 2))
    listed = {(x.method, x.backbone, x.shots): (x.printed, x.folds) for x in table.means}
    assert listed.keys() == wrong.keys()
    for key, (printed, folds) in listed.items():
        assert printed == wrong[key][0]
        assert folds == pytest.approx(wrong[key][1], abs=0.011)


def test_tables_agree_with_each_other_but_for_the_notes():
    aggregate, ten, main = published("table3-pascal"), published("table9-pascal"), published("table1")
    assert aggregate.value("RePRI", 10) == 68.2
    assert ten.value("RePRI", 10) == 68.1
    for method in ("RPMM", "PFENet", "RePRI", "Oracle-RePRI"):
        assert aggregate.value(method, 1) == main.value(method, 1)
        assert published("table4").value(method, 5) == published("table8").value(method, 5)
    for shots in (1, 5):
        assert [published("table5").value("CE + H + KL", shots, fold) for fold in range(4)] == [
            main.value("RePRI", shots, fold) for fold in range(4)
        ]
    assert published("table6").value("RPMM", 1) == 51.5  # 56.3 in Table 1, as a note says
    assert any("51.5" in note for note in published("table6").notes)


def test_values_that_are_not_there():
    assert published("table1").value("RePRI", 10) is None
    assert published("table3-pascal").value("RePRI", 1, fold=0) is None
    assert published("table1").value("Nobody", 1) is None
    assert published("table6").speed("PFENet", 5) == 5.1
    with pytest.raises(RepriError, match="no published table named 'table99'"):
        published("table99")
