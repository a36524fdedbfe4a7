#!/bin/sh
# Figures of the embedded model's compact network, and of heads on it alone: sh benchmarks/embedded.sh PASCAL DINOV2 LITE0 MOBILENET RUNS RESULTS
# (the data's folder, a folder with facebook/dinov2-small, ImageNet weights of EfficientNet-Lite0 and of MobileNetV2,
# where to train, where to put the JSONs). What is there already is not done again.
#   distilled     a teacher and no labels: one network for all folds (configs/embedded.yaml)
#   discriminant  heads on it without the twin, from the labels of each fold's base classes
#   lite0         the same heads on ImageNet's EfficientNet-Lite0: labels and no teacher
#   labels        cross-entropy on the fold's base classes: labels and no teacher
#   both          on from the package's network, teacher and cross-entropy
#                 (these two small, so that eight of them are a matter of an hour: 257 pixels, frozen up to layer3)
# The commands that made the files in the package are in src/repri/models/weights/embedded.md.
# FOLDS (0 1 2 3) and WAYS (distilled discriminant lite0 labels both) choose what is trained; the package's own figures and MobileNet's
# are always made. Runs of 1000 tasks: RUNS_1, RUNS_5, RUNS_10 by shots, RUNS_SIDE for the variants.
set -e
pascal=$1 dino=hub:$2 lite=$3 mobilenet=$4 runs=$5 results=$6
export OMP_NUM_THREADS=1

train() { # folder, then options
    folder=$runs/$1; shift
    [ -f "$folder/done" ] && return
    resume=; [ -f "$folder/last.pt" ] && resume=--resume
    repri train --config configs/embedded.yaml --root "$pascal" --output "$folder" "$@" $resume && touch "$folder/done"
}

evaluate() { # name, shots, runs, then options
    name=$1-$2shot shots=$2 n=$3; shift 3
    [ -f "$results/$name.json" ] || torchrun --nproc-per-node 2 -m repri evaluate --root "$pascal" \
        --output "$results/$name.json" --shots "$shots" --runs "$n" "$@"
}

by_shots() { # name, then options
    name=$1; shift
    evaluate "$name" 1 "${RUNS_1:-5}" "$@"
    evaluate "$name" 5 "${RUNS_5:-5}" "$@"
    evaluate "$name" 10 "${RUNS_10:-5}" "$@"
}

ways=${WAYS:-distilled discriminant lite0 labels both}
case $ways in *distilled*) train distilled --weights "$lite" --teacher "$dino" ;; esac
case $ways in *distilled*)
    by_shots distilled-single --extractor "$runs/distilled/model.safetensors" --size 417 ;;
esac
discriminant() { # folder, fold, then options
    folder=$runs/$1 fold=$2; shift 2
    [ -f "$folder/model.safetensors" ] || repri train --config configs/pascal-embedded-discriminant.yaml \
        --root "$pascal" --fold "$fold" --output "$folder" "$@"
}

package=$(python -c 'from repri.models.weights.embedded import embedded_path; print(embedded_path())')
small="--freeze layer3 --size 257 --loss-stride 4 --warmup 40 --label-weight 1 --validation-images 100"
for fold in ${FOLDS:-0 1 2 3}; do
    case $ways in *discriminant*) discriminant discriminant-fold$fold "$fold" --network distilled ;; esac
    case $ways in *lite0*)
        discriminant lite0-fold$fold "$fold" --network efficientnet_lite0 --weights "$lite" \
            --layers layer3,layer4 ;;
    esac
    case $ways in *labels*)
        train labels-fold$fold --fold $fold --weights "$lite" --teacher none $small --images 1500 \
            --epochs 3 ;;
    esac
    case $ways in *both*)
        train both-fold$fold --fold $fold --weights "$package" --teacher "$dino" --teacher-size 252 $small \
            --images 2500 --epochs 3 ;;
    esac
done
case $ways in *labels*)
    by_shots embedded-labels --extractor "$runs/labels-fold{fold}/model.safetensors" --size 417 --preset trained ;;
esac
case $ways in *both*)
    by_shots embedded-both --extractor "$runs/both-fold{fold}/model.safetensors" --size 417 ;;
esac
case $ways in *lite0*) by_shots lite0-discriminant --extractor "$runs/lite0-fold{fold}/model.safetensors" ;; esac
headed="$runs/discriminant-fold{fold}/model.safetensors"
case $ways in *discriminant*)
    by_shots embedded --extractor "$headed"
    evaluate embedded-shifts 1 "${RUNS_1:-5}" --extractor "$headed" --shifts 2 ;;
esac
by_shots distilled --extractor distilled
side() { # name, method, then options: one shot
    name=$1 method=$2; shift 2
    evaluate "$name" 1 "${RUNS_SIDE:-1}" --method "$method" "$@"
}
for name in embedded distilled; do
    extractor=distilled
    if [ $name = embedded ]; then
        case $ways in *discriminant*) extractor=$headed ;; *) continue ;; esac
    fi
    side $name-prototype prototype --extractor "$extractor"
    side $name-oracle repri-oracle --extractor "$extractor"
done
side mobilenet-layer4 repri --extractor mobilenet_v2 --weights "$mobilenet" --layers layer4
side mobilenet-layer3 repri --extractor mobilenet_v2 --weights "$mobilenet" --layers layer3
side mobilenet-prototype prototype --extractor mobilenet_v2 --weights "$mobilenet" --layers layer4
