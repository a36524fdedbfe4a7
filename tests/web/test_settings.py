"""Settings of a project."""

import pytest
from pydantic import ValidationError

from repri.web.settings import COLOURS, ClassSettings, ProjectSettings


@pytest.mark.parametrize(
    "content",
    [
        {"classes": []},
        {"classes": [{"name": "a"}, {"name": "a "}]},
        {"classes": [{"name": "  "}]},
        {"classes": [{"name": "a\nb"}]},
        {"classes": [{"name": "a", "colour": "red; background: url(x)"}]},
        {"threshold": 1},
        {"unknown": 1},
    ],
)
def test_settings_that_are_refused(content):
    with pytest.raises(ValidationError):
        ProjectSettings.model_validate(content)


def test_defaults():
    assert ProjectSettings().classes == [ClassSettings(name="object", colour=COLOURS[0])]
    assert ProjectSettings(classes=[ClassSettings(name="<b>")]).classes[0].name == "<b>"
