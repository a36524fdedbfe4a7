#!/bin/sh
# Every table of "Without base training" in docs/results.md: sh benchmarks/results.sh PASCAL DINOV2 RESNET50 RESULTS
# (the data's folder, a folder with facebook/dinov2-small, ImageNet weights of ResNet-50, where to put the JSONs).
# What is there already is not done again. Runs of 1000 tasks a fold: RUNS_1, RUNS_5, RUNS_10 by shots, RUNS_SIDE.
set -e
pascal=$1 dino=hub:$2 resnet=$3 results=$4
export OMP_NUM_THREADS=1

evaluate() { # name, then options
    name=$1; shift
    [ -f "$results/$name.json" ] || torchrun --nproc-per-node 2 -m repri evaluate \
        --root "$pascal" --output "$results/$name.json" "$@"
}

table() { # protocol, shots, runs
    for method in repri prototype ce_h ce repri-oracle; do
        evaluate dinov2-"$1"-$method-"$2"shot --extractor "$dino" --protocol "$1" --method $method --shots "$2" --runs "$3"
    done
}

original() { # shots, runs: the authors' classifier under the clean protocol
    for method in repri ce_h ce repri-oracle; do
        evaluate dinov2-original-$method-"$1"shot --extractor "$dino" --method $method --preset original \
            --shots "$1" --runs "$2"
    done
}

side() { # name, then options: one shot, the method and its baseline
    for method in repri prototype; do
        evaluate "$1"-$method --method $method --runs "${RUNS_SIDE:-1}" $2 $3 $4 $5 $6 $7 $8
    done
}

table clean 1 "${RUNS_1:-5}"
table clean 5 "${RUNS_5:-5}"
original 1 "${RUNS_1:-5}"
original 5 "${RUNS_5:-5}"
table official 1 "${RUNS_1:-5}"
table official 5 "${RUNS_5:-5}"
table clean 10 "${RUNS_10:-5}"
side dinov2-560px --extractor "$dino" --size 560
side dinov2-last2 --extractor "$dino" --layers=-2,-1
for method in repri prototype; do # what half precision of the stored features costs, on one fold
    evaluate dinov2-single-$method --extractor "$dino" --precision single --method $method --fold 0 --runs 5
done
side dinov2-layer11 --extractor "$dino" --layers=-2
side dinov2-last3 --extractor "$dino" --layers=-3,-2,-1
side dinov2-last4 --extractor "$dino" --layers=-4,-3,-2,-1
table official 10 "${RUNS_10:-5}"
original 10 "${RUNS_10:-5}"
for layer in layer4 layer3; do
    side resnet50-$layer --extractor resnet50 --weights "$resnet" --layers $layer
done
trunk() { # layer, temperature, shots, tasks: settings as python benchmarks/choose.py --grid scale finds them on base classes
    for method in prototype repri ce_h ce repri-oracle; do
        scale="--set background=support --set temperature=$2"; [ $method = prototype ] && scale=
        evaluate resnet50-"$1"-scaled-$method-"$3"shot --extractor resnet50 --weights "$resnet" --layers "$1" \
            --method $method --shots "$3" --runs "${RUNS_SIDE:-1}" --tasks "$4" $scale
    done
}
trunk layer4 100 1 250
trunk layer4 100 5 250
trunk layer4 100 10 100
trunk layer3 40 1 250
trunk layer3 40 5 100
trunk layer3 40 10 100
