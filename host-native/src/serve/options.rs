//! Options of `fanlight serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use crate::options::{BudgetOptions, Kv};

/// The port where nothing is said.
pub const PORT: u16 = 8787;

/// What is served, where, and to whom.
#[derive(Debug, Args)]
pub struct ServeOptions {
    /// The model file (GGUF); of a split model, its first part.
    pub model: PathBuf,
    /// The port, 0 for one that is free.
    #[arg(long, value_name = "N", default_value_t = PORT)]
    pub port: u16,
    /// The address to listen at [default: this machine alone, 127.0.0.1 and ::1]. Any other needs a key, and
    /// what passes is not encrypted.
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<IpAddr>,
    /// Another name that clients may call this server by; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// A page that may use this server, as https://example.org; may be given several times.
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    /// The key that clients must send [default: FANLIGHT_KEY of the environment, or none]. Others on this
    /// machine may see it here: --key-file keeps it to yourself.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// A file that holds the key.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub key_file: Option<PathBuf>,
    /// The name under which the model is served [default: that of the file].
    #[arg(long, value_name = "NAME")]
    pub alias: Option<String>,
    /// Refuse requests for a model of another name; without it the loaded model answers all.
    #[arg(long)]
    pub strict_model: bool,
    /// Positions of the context [default: 4096, or the file's where that is less].
    #[arg(long, value_name = "N")]
    pub context: Option<u32>,
    /// Format of the key/value cache.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub kv: Kv,
    /// What the model may take on the GPU.
    #[command(flatten)]
    pub budget: BudgetOptions,
    /// Print method, path, status and time of each request on the standard error output; never its text.
    #[arg(long)]
    pub log_requests: bool,
}
