//! The command line: run a model, look into a model file, verify the kernels, measure.

mod bench;
mod cache;
mod chat;
mod connect;
mod files;
mod inspect;
mod library;
mod load;
mod measured;
mod memory;
mod observe;
mod options;
mod replay;
mod reply;
mod report;
mod run;
mod sampling;
mod serve;
mod start;
mod stop;
mod suite;
mod terminal;
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
        Command::Chat(options) => chat::chat(options),
        Command::Connect(options) => connect::connect(options),
        Command::Serve(options) => serve::serve(options),
        Command::List(options) => library::list(options),
        Command::Show(options) => library::show(options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            if options.command.is_json() {
                report::print_json(&report::error_line(&error));
            }
            eprintln!("fanlight: {}", terminal::plain(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
