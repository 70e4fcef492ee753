//! OpenAI's Responses, without state: `POST /v1/responses`.

mod items;
mod reply;
mod request;
mod tools;
mod writer;

pub use request::read;
