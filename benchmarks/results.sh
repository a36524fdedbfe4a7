#!/bin/sh
# Every figure of docs/results.md: sh benchmarks/results.sh PASCAL DINOV2 RESNET50 RESULTS
# (the data's folder, a folder with facebook/dinov2-small, ImageNet weights of ResNet-50, where to put the JSONs).
# What is there already is not done again. RUNS_FEW: runs of 1000 tasks at 5 and 10 shots, MORE: runs of the side tables.
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
        evaluate dinov2-original-$method-"$1"shot --extractor "$dino" --method $method --set form=original \
            --shots "$1" --runs "$2"
    done
}

table clean 1 5
original 1 5
table official 1 5
table clean 5 "${RUNS_FEW:-5}"
original 5 "${RUNS_FEW:-5}"
for method in repri prototype; do
    for layers in -2 -2,-1 -3,-2,-1 -4,-3,-2,-1; do
        evaluate dinov2-layers$layers-$method --extractor "$dino" --method $method --layers=$layers --runs "${MORE:-1}"
    done
    evaluate dinov2-560px-$method --extractor "$dino" --method $method --size 560 --runs "${MORE:-1}"
    evaluate dinov2-single-$method --extractor "$dino" --method $method --precision single --runs "${MORE:-1}"
done
table official 5 "${RUNS_FEW:-5}"
table clean 10 "${RUNS_FEW:-5}"
original 10 "${RUNS_FEW:-5}"
table official 10 "${RUNS_FEW:-5}"
for layer in layer3 layer4; do
    for method in repri prototype repri-oracle; do
        evaluate resnet50-$layer-$method --extractor resnet50 --weights "$resnet" --layers $layer --method $method \
            --runs "${MORE:-1}"
    done
done
