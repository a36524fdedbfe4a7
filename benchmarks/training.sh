#!/bin/sh
# Base training of DINOv2-small's last blocks, and what it is worth: sh benchmarks/training.sh PASCAL DINOV2 RUNS RESULTS
# (the data's folder, a folder with facebook/dinov2-small, where the networks go, where the JSONs and logs go).
# A run that was stopped goes on; what is there already is not done again. Runs of 1000 tasks:
# RUNS_1, RUNS_5, RUNS_10 by shots, RUNS_SIDE for the variants. From the repository's folder.
set -e
pascal=$1 dino=hub:$2 runs=$3 results=$4
export OMP_NUM_THREADS=1
mkdir -p "$results"

train() { # fold
    out=$runs/pascal-dinov2-blocks-fold$1
    [ -f "$results/pascal-dinov2-blocks-fold$1.csv" ] && return 0
    [ -f "$out/last.pt" ] && resume=--resume || resume=
    torchrun --nproc-per-node 2 -m repri train --config configs/pascal-dinov2-blocks.yaml --root "$pascal" --fold "$1" \
        --set network="$dino" --output "$out" $resume
    cp "$out/config.yaml" "$results/pascal-dinov2-blocks-fold$1.yaml"
    cp "$out/log.csv" "$results/pascal-dinov2-blocks-fold$1.csv"
}

evaluate() { # name, then options
    name=$1; shift
    [ -f "$results/$name.json" ] || torchrun --nproc-per-node 2 -m repri evaluate --root "$pascal" \
        --extractor "$runs/pascal-dinov2-blocks-fold{fold}/model.safetensors" --output "$results/$name.json" "$@"
}

for fold in 0 1 2 3; do train $fold; done
for shots in 1 5 10; do
    case $shots in 1) n=${RUNS_1:-5} ;; 5) n=${RUNS_5:-5} ;; *) n=${RUNS_10:-5} ;; esac
    evaluate blocks-trained-repri-${shots}shot --set form=trained --shots $shots --runs "$n"
    evaluate blocks-prototype-${shots}shot --method prototype --shots $shots --runs "$n"
    evaluate blocks-clean-repri-${shots}shot --shots $shots --runs "${RUNS_SIDE:-1}"
    for method in ce ce_h repri-oracle; do
        evaluate blocks-trained-$method-${shots}shot --method $method --set form=trained --shots $shots --runs "${RUNS_SIDE:-1}"
    done
done
