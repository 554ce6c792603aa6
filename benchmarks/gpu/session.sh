#!/bin/bash
# Tests and measurements on a machine with a GPU that is there for ten minutes: bash benchmarks/gpu/session.sh FOLDER
# Each part has its own time limit; FOLDER/all.tar.gz holds what is there after the last one that ended.
folder=$1; mkdir -p "$folder"
export PYTHONPATH=$PWD/src:$PWD PYTHONUNBUFFERED=1

part() { # part NAME SECONDS ARGUMENTS: python with a time limit, its output in a file
    local name=$1 seconds=$2; shift 2
    timeout "$seconds" python "$@" > "$folder/$name.txt" 2>&1
    echo "== $name: $?"; tail -n 8 "$folder/$name.txt" | cut -c1-400
    tar czf "$folder/all.tar.gz" -C "$folder" --exclude all.tar.gz .
}

models() { # models NAME SECONDS CASES ENGINES
    part "$1" "$2" -m benchmarks.gpu.models --seconds 0.4 --cases "$3" --engines "$4" --output "$folder/$1.json"
}

main=resnet50_b1,resnet50_b32,bert_16x384,vit_b16_b32,gpt2_decode_1024,llama1b_decode_1024,llama1b_prefill_2048
more=unet_b2,convnext_tiny_b32,efficientnet_b0_b1,mobilenet_v2_b1,whisper_tiny_encoder
floats=resnet50_b1_fp32,resnet50_b32_fp32,bert_16x384_fp32
part install 40 -m pip install -q --no-deps --no-build-isolation -e .
part device 140 -m pytest tests/targets/gpu -m device -q -n 14
part tune 75 -m benchmarks.gpu.tune_table --seconds 70 --output "$folder/cuda_90.json" \
    --cases "$floats,whisper_tiny_encoder,mobilenet_v2_b1,efficientnet_b0_b1"
models ours 130 "$main,$more,$floats,gpt2_64" openmgx_fx
models overhead 170 "resnet50_b32,bert_16x384,vit_b16_b32,llama1b_decode_1024,gpt2_decode_1024,$more" reduce_overhead
models int8 40 resnet50_b32 openmgx_int8
models compiled 60 resnet50_b1,bert_16x384,vit_b16_b32,llama1b_decode_1024,mobilenet_v2_b1 openmgx
models graphs 60 "$floats,$more" eager_graph
part start 30 -m benchmarks.gpu.start
