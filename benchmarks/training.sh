#!/bin/sh
# Base training without a GPU, and what it is worth: sh benchmarks/training.sh PASCAL DINOV2 RUNS RESULTS
# (the data's folder, a folder with facebook/dinov2-small, where the networks go, where the JSONs and logs go).
#   discriminant  a linear map on four frozen layers, in one pass    (configs/pascal-dinov2-discriminant.yaml)
#   joint         the same on ResNet-50's layer4 and DINOv2 together  (configs/pascal-joint-discriminant.yaml); JOINT: a YAML
#                 file such as configs/networks/resnet50-dinov2.yaml that names the two
#   blocks        the last three blocks, by cross-entropy            (configs/pascal-dinov2-blocks.yaml)
#   resnet50      PSPNet from layer4 on, fold 0 alone                (configs/pascal-resnet50-layer3.yaml); RESNET50: the
#                 ImageNet weights, a file or a name of `repri weights`
# WAYS (discriminant joint blocks resnet50) chooses. A run that was stopped goes on; what is there already is not done again. Runs of
# 1000 tasks: RUNS_1, RUNS_5, RUNS_10 by shots, RUNS_SIDE for the variants. From the repository's folder; RESULTS another one than
# its results/, whose logs would say that everything has been trained.
set -e
pascal=$1 dino=hub:$2 runs=$3 results=$4
export OMP_NUM_THREADS=1
mkdir -p "$results"

config() { # way: the name of its configuration
    case $1 in joint) echo pascal-joint-discriminant ;; *) echo "pascal-dinov2-$1" ;; esac
}

train() { # way, fold
    name=$(config "$1")-fold$2
    [ -f "$results/$name.csv" ] && return 0
    [ -f "$runs/$name/last.pt" ] && resume=--resume || resume=
    case $1 in joint) network=${JOINT:-configs/networks/resnet50-dinov2.yaml} ;; *) network=$dino ;; esac
    torchrun --nproc-per-node 2 -m repri train --config "configs/$(config "$1").yaml" --root "$pascal" --fold "$2" \
        --network "$network" --output "$runs/$name" $resume
    cp "$runs/$name/config.yaml" "$results/$name.yaml"
    cp "$runs/$name/log.csv" "$results/$name.csv"
}

evaluate() { # way, name, then options
    way=$1 name=$1-$2; shift 2
    [ -f "$results/$name.json" ] || torchrun --nproc-per-node 2 -m repri evaluate --root "$pascal" \
        --extractor "$runs/$(config "$way")-fold{fold}/model.safetensors" --output "$results/$name.json" "$@"
}

runs_of() { # shots
    case $1 in 1) echo "${RUNS_1:-5}" ;; 5) echo "${RUNS_5:-5}" ;; *) echo "${RUNS_10:-5}" ;; esac
}

table() { # way, then settings of the classifier
    way=$1; shift
    for shots in 1 5 10; do
        n=$(runs_of $shots)
        evaluate "$way" repri-${shots}shot "$@" --shots $shots --runs "$n"
        evaluate "$way" prototype-${shots}shot --method prototype --shots $shots --runs "$n"
        evaluate "$way" clean-repri-${shots}shot --preset clean --shots $shots --runs "${RUNS_SIDE:-1}"
        for method in ce ce_h repri-oracle; do
            evaluate "$way" $method-${shots}shot --method $method "$@" --shots $shots --runs "${RUNS_SIDE:-1}"
        done
    done
}

strict() { # fold: with the bias that its base classes choose, where that is another than 0.8 and 1.2 (docs/protocols.md)
    for shots in 1 5 10; do
        n=$(runs_of $shots)
        evaluate joint strict-fold$1-repri-${shots}shot --fold "$1" --preset discriminant --set start_bias=0.5 \
            --set shots_bias=0.625 --shots $shots --runs "$n"
    done
}

resnet50() { # the size and the form of inference were chosen on tasks of fold 1, whose classes are base classes here
    folder=$runs/pascal-resnet50-layer3-fold0
    [ -f "$folder/last.pt" ] && resume=--resume || resume=
    if [ ! -f "$results/pascal-resnet50-layer3-fold0.csv" ]; then
        repri train --config configs/pascal-resnet50-layer3.yaml --root "$pascal" --fold 0 \
            --weights "${RESNET50:-resnet50}" --output "$folder" $resume
        cp "$folder/config.yaml" "$results/pascal-resnet50-layer3-fold0.yaml"
        cp "$folder/log.csv" "$results/pascal-resnet50-layer3-fold0.csv"
    fi
    for shots in 1 5; do
        for method in repri prototype repri-oracle; do
            name=$results/pspnet-resnet50-fold0-$method-${shots}shot.json
            set -- --method $method; [ $method = prototype ] || set -- "$@" --preset original
            [ -f "$name" ] || repri evaluate --root "$pascal" --fold 0 --size 353 --shots $shots "$@" \
                --extractor "$folder/model.safetensors" --output "$name"
        done
    done
}

for way in ${WAYS:-discriminant joint blocks resnet50}; do
    [ "$way" = resnet50 ] && { resnet50; continue; }
    for fold in 0 1 2 3; do train "$way" $fold; done
    case $way in
    blocks) table "$way" --preset trained ;;
    joint)
        table "$way" --preset discriminant --set start_bias=0.8 --set shots_bias=0.5
        strict 0; strict 2 ;;
    *) table "$way" --preset discriminant ;;
    esac
done
