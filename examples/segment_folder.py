"""Fit a segmenter to annotated images, segment other images, and save the masks and the segmenter.

Without arguments, a photograph that comes with the package is the support, and two others are segmented. On your own:

    python examples/segment_folder.py --support annotated/ --query 'photos/*.jpg' --output masks/
"""

import argparse
from pathlib import Path

import repri
from repri.data import load_example
from repri.data.io.queries import find_queries
from repri.segmenter.shots import read_support

PEOPLE = load_example("people").folder


def main() -> None:
    parser = argparse.ArgumentParser(description="Segment images by a few annotated ones.")
    parser.add_argument("--support", default=PEOPLE / "annotated", help="annotations in any known format")
    parser.add_argument("--query", default=str(PEOPLE / "queries" / "images"), help="an image, a folder or a pattern")
    parser.add_argument("--output", type=Path, default=Path("demo/segment_folder"), help="folder to write")
    args = parser.parse_args()

    shots = read_support(Path(args.support))
    fitted = repri.Segmenter().fit_maps(shots.images, shots.maps, shots.classes)
    for result in fitted.segment_many(find_queries(args.query).values()):
        mask = args.output / f"{Path(result.source).stem}.png"
        result.save(mask)
        parts = ", ".join(f"{name} {100 * part:.0f} %" for name, part in result.proportions.items())
        print(f"{mask}: {parts} of the image, confidence {100 * result.confidence:.0f} %")

    fitted.save(path := args.output / "segmenter.safetensors")
    again = repri.Segmenter.load(path)  # gives the same masks, also in another process
    print(f"saved {path}: {', '.join(again.classes)}")


if __name__ == "__main__":
    main()
