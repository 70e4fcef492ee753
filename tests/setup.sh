#!/usr/bin/env bash
# Installs what building, testing and the demo need and what is not there yet, on Debian and Ubuntu. As root
# it installs system packages; as anyone else it names the ones that are missing. What is there is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
# need COMMAND PACKAGE: the package is missing when the command is.
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
# need_file PATTERN PACKAGE: the package is missing when no file matches.
need_file() { compgen -G "$1" >/dev/null || missing+=("$2"); }

need git git
need cc build-essential
need make make
need curl curl
need python3 python3
need node nodejs
need npm npm
need chromium chromium
need chromedriver chromium-driver
need_file '/etc/ssl/certs/ca-certificates.crt' ca-certificates
need_file '/usr/lib/*/libvulkan.so.1' libvulkan1
need_file '/usr/share/vulkan/icd.d/lvp_icd*.json' mesa-vulkan-drivers
if command -v python3 >/dev/null 2>&1; then
    python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
else
    missing+=(python3-pip)
fi

if [ ${#missing[@]} -gt 0 ]; then
    install="apt-get install --yes --no-install-recommends ${missing[*]}"
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: missing, under their Debian names: ${missing[*]}" >&2
        exit 1
    elif [ "$(id -u)" -ne 0 ]; then
        echo "setup: missing; run as root: $install" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet
    $install
fi

# Rust: the version of rust-toolchain.toml, through rustup.
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
if ! command -v rustup >/dev/null 2>&1; then
    if [ "$(id -u)" -eq 0 ] && apt-get install --yes --no-install-recommends rustup >/dev/null 2>&1; then
        echo "setup: rustup from the distribution"
    elif command -v cargo >/dev/null 2>&1; then
        echo "setup: cargo is there without rustup: it must bring the target wasm32-unknown-unknown itself"
    else
        curl --proto '=https' --tlsv1.2 --silent --show-error --fail https://sh.rustup.rs |
            sh -s -- -y --profile minimal --default-toolchain none
    fi
fi
if command -v rustup >/dev/null 2>&1; then
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    rustup toolchain list | grep -q "^$channel" || rustup toolchain install "$channel" --profile minimal
    for component in rustfmt clippy; do
        rustup component list --toolchain "$channel" --installed | grep -q "^$component" ||
            rustup component add --toolchain "$channel" "$component"
    done
    rustup target list --toolchain "$channel" --installed | grep -qx wasm32-unknown-unknown ||
        rustup target add --toolchain "$channel" wasm32-unknown-unknown
fi

if [ -f host-web/package-lock.json ] && [ ! -d host-web/node_modules ]; then
    npm ci --prefix host-web --no-audit --no-fund
fi
if [ ! -d tests/clients/node_modules ]; then
    npm ci --prefix tests/clients --no-audit --no-fund
fi
browser=$(chromium --version 2>/dev/null | head -1)
echo "setup: complete ($(cargo --version), node $(node --version), $browser)"
