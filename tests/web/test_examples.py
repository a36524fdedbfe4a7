"""Images to try the page with."""

from repri.web.examples import add_examples
from repri.web.project import Project


def test_examples_are_images_of_the_project(tmp_path):
    (tmp_path / "p").mkdir()
    project = Project(tmp_path / "p")
    count = add_examples(project)
    assert count == len(project.images) >= 10
    names = [image.name for image in project.images.values()]
    assert len(set(names)) == count
    assert len({project.pixels(id).tobytes() for id in project.images}) == count
