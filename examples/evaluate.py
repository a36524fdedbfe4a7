"""Evaluate RePRI and a plain baseline on few-shot tasks: the whole protocol on one screen.

Without arguments, the tasks are drawn from generated scenes and the features need no weights. On PASCAL-5i:

    python examples/evaluate.py --data pascal --root data/pascal --extractor default-fold0 --tasks 1000
"""

import argparse

from repri import evaluate, load_extractor, open_dataset, sample_tasks


def main() -> None:
    parser = argparse.ArgumentParser(description="Evaluate two methods on the same few-shot tasks.")
    parser.add_argument("--data", default="scenes", help="pascal, coco, scenes or a YAML file")
    parser.add_argument("--root", help="folder of the data set")
    parser.add_argument("--extractor", default="filters", help="name of an extractor")
    parser.add_argument("--fold", type=int, default=0, help="fold whose classes are novel")
    parser.add_argument("--shots", type=int, default=1, help="annotated images per task")
    parser.add_argument("--tasks", type=int, default=10, help="tasks per run")
    args = parser.parse_args()

    dataset = open_dataset(args.data, args.root)  # the validation split
    tasks = sample_tasks(dataset, dataset.novel(args.fold), args.shots, args.tasks, runs=2, seed=0)
    extractor = load_extractor(args.extractor)  # frozen; its features are stored in the user cache
    names = ", ".join(tasks.classes.values())
    print(f"{names}: {args.shots} shot, 2 runs of {args.tasks} tasks, list {tasks.hash[:8]}")
    for method in ("prototype", "repri"):
        scores = evaluate(dataset, tasks, extractor, method, protocol="clean").scores()
        low, high = scores.interval
        print(f"{method:10} mIoU {scores.miou:.1f} ({low:.1f} … {high:.1f}), FB-IoU {scores.fb_iou:.1f}")


if __name__ == "__main__":
    main()
