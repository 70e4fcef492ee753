//! The command line: run a model, look into a model file, verify the kernels, measure.

mod bench;
mod cache;
mod files;
mod inspect;
mod load;
mod measured;
mod memory;
mod observe;
mod options;
mod replay;
mod report;
mod run;
mod sampling;
mod stop;
mod suite;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use options::{Command, Options};

fn main() -> ExitCode {
    // Warnings of the device go to stderr; RUST_LOG is not read, so that output never depends on it.
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    let options = Options::parse();
    let outcome = match &options.command {
        Command::Run(run) => run::run(run),
        Command::Inspect(inspect) => inspect::inspect(inspect),
        Command::Verify(verify) => verify::verify(verify),
        Command::Bench(bench) => bench::bench(bench),
        Command::Replay(replay) => replay::run(replay),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            if options.command.is_json() {
                report::print_json(&report::error_line(&error));
            }
            eprintln!("fanlight: {error:#}");
            ExitCode::FAILURE
        }
    }
}
