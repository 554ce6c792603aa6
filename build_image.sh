#!/bin/sh
# Build the image `openmgx` from this folder: ./build_image.sh [options of docker build]
set -e
cd "$(dirname "$0")"
exec "${DOCKER:-docker}" build --tag openmgx "$@" .
