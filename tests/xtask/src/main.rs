//! `cargo xtask web` builds the module of the SDK into host-web/sdk/dist; `cargo xtask wasm-test FILE` is the
//! runner that cargo calls for WebAssembly tests (.cargo/config.toml). Both use wasm-bindgen as a library, in
//! the version that the workspace pins, so nothing has to be installed.

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate that becomes the package, and the stem of its files.
const WEB_CRATE: &str = "fanlight-web";
const WEB_STEM: &str = "fanlight_web";
const WASM_TARGET: &str = "wasm32-unknown-unknown";
/// The profile of the root Cargo.toml that makes the smallest module.
const WEB_PROFILE: &str = "web";

#[derive(Parser)]
#[command(about = "WebAssembly chores of the workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the WebAssembly module of the SDK
    Web {
        /// Folder to write
        #[arg(long)]
        out: Option<PathBuf>,
        /// Cargo profile; `dev` keeps assertions and builds faster
        #[arg(long, default_value = WEB_PROFILE)]
        profile: String,
    },
    /// Run the tests of a WebAssembly file in a headless browser
    WasmTest {
        /// What cargo passes: the file, then options of the test runner
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Web { out, profile } => build_web(out, &profile),
        Task::WasmTest { arguments } => {
            let program = OsString::from("wasm-bindgen-test-runner");
            let arguments: Vec<OsString> = std::iter::once(program).chain(arguments).collect();
            wasm_bindgen_cli::wasm_bindgen_test_runner::run_cli_with_args(arguments)
        }
    }
}

/// The workspace's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cargo that runs this, in the workspace's folder.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Where cargo puts what it builds, by its own word: the environment and configuration files may move it.
fn target_folder() -> anyhow::Result<PathBuf> {
    let output = cargo().args(["metadata", "--format-version", "1", "--no-deps"]).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata names no target_directory")?;
    Ok(PathBuf::from(folder))
}

fn build_web(out: Option<PathBuf>, profile: &str) -> anyhow::Result<()> {
    let out = out.unwrap_or_else(|| root().join("host-web/sdk/dist"));
    let build = ["build", "--package", WEB_CRATE, "--target", WASM_TARGET, "--profile", profile];
    let status = cargo().args(build).status()?;
    ensure!(status.success(), "cargo {} ended with {status}", build.join(" "));
    // The folder of the profile `dev` is called `debug`.
    let folder = if profile == "dev" { "debug" } else { profile };
    let module = target_folder()?.join(WASM_TARGET).join(folder).join(format!("{WEB_STEM}.wasm"));
    let mut arguments: Vec<OsString> =
        ["wasm-bindgen", "--target", "web", "--out-dir"].map(OsString::from).into();
    arguments.extend([out.clone().into_os_string(), "--out-name".into(), "fanlight".into()]);
    if profile == WEB_PROFILE {
        arguments.extend(["--remove-name-section", "--remove-producers-section"].map(OsString::from));
    }
    arguments.push(module.into_os_string());
    wasm_bindgen_cli::wasm_bindgen::run_cli_with_args(arguments)?;
    let built = out.join("fanlight_bg.wasm");
    let size_bytes = std::fs::metadata(&built).with_context(|| format!("no {}", built.display()))?.len();
    println!("{}: {:.2} MB", built.display(), size_bytes as f64 / 1e6);
    Ok(())
}
