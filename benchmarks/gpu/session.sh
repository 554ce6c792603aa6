#!/bin/bash
# Tests and measurements on a machine with a GPU that is there for ten minutes: bash benchmarks/gpu/session.sh FOLDER
# Each part has its own time limit; what was written until then stays. FOLDER/all.tar.gz holds everything.
folder=$1; mkdir -p "$folder"
export PYTHONPATH=$PWD/src:$PWD PYTHONUNBUFFERED=1

part() { # part NAME SECONDS ARGUMENTS: python with a time limit, its output in a file
    local name=$1 seconds=$2; shift 2
    timeout "$seconds" python "$@" > "$folder/$name.txt" 2>&1
    echo "== $name: $?"; tail -n 8 "$folder/$name.txt" | cut -c1-400
}

tests=(contractions libraries executable on_device saved api)
part device 60 -m pytest $(printf "tests/targets/gpu/test_%s.py " "${tests[@]}") -m device -q -n 14
part tune 200 -m benchmarks.gpu.tune_table --seconds 185 --output "$folder/cuda_90.json" --times "$folder/times.json" \
    --cases vit_b16_b32,bert_16x384,llama1b_decode_1024,gpt2_decode_1024,convnext_tiny_b32,unet_b2,efficientnet_b0_b1,mobilenet_v2_b1,whisper_tiny_encoder,resnet50_b32_fp32,bert_16x384_fp32
part profile 60 -m benchmarks.gpu.profile --cases vit_b16_b32,bert_16x384,llama1b_decode_1024,unet_b2 --output "$folder/profile.json"
part calls 35 -m benchmarks.gpu.profile --calls --cases resnet50_b1 --output "$folder/calls.json"
part models 80 -m benchmarks.gpu.models --seconds 1 --cases vit_b16_b32,bert_16x384,resnet50_b1,llama1b_decode_1024 \
    --engines openmgx_fx,openmgx --output "$folder/models.json"
part int8 25 -m benchmarks.gpu.models --seconds 1 --cases resnet50_b32 --engines openmgx_int8
part fp8 25 -m benchmarks.gpu.models --seconds 1 --cases bert_16x384 --engines openmgx_fp8
part start 30 -m benchmarks.gpu.start
part memory 20 -m benchmarks.gpu.runtime --only memory
part onnx 80 -m pytest tests/targets/gpu/test_conformance.py -m device -q -n 14
tar czf "$folder/all.tar.gz" -C "$folder" --exclude all.tar.gz .
