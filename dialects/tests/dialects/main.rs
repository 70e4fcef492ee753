//! Every dialect: captured requests of real clients to the normal form, and scripted replies to bytes, cut in
//! every way. The captures are of clients of November 2026; long texts in them are cut.

mod anthropic;
mod captures;
mod chat;
mod completions;
mod ollama;
mod refusals;
mod responses;
mod script;
