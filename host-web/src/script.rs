//! What passes between the engine and the worker's script: requests in the engine's words, answers and events
//! in the script's.

use std::future::Future;

use futures::future::{Either, select};
use futures::pin_mut;
use js_sys::{Date, Function, Math, Promise};
use serde::Serialize;
use tsify::{Ts, Tsify};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use fanlight_actors::kit::Latch;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::reply::Think;

use crate::error::{Failure, FailureKind, text_of};
use crate::wire::{Progress, Speaker, Turn};

/// A conversation as a prompt.
pub(crate) fn chat_prompt(turns: Vec<Turn>, think: Think) -> Prompt {
    let turn = |turn: Turn| {
        let role = match turn.role {
            Speaker::System => ChatRole::System,
            Speaker::User => ChatRole::User,
            Speaker::Assistant => ChatRole::Assistant,
        };
        ChatTurn::new(role, turn.content)
    };
    let turns = turns.into_iter().map(turn).collect();
    Prompt::Chat { turns, tools: ChatTools::default(), think, now: local_time() }
}

/// A whole number below 2^53, which a script can hold and ask for again.
pub(crate) fn random_seed() -> u64 {
    (Math::random() * 9_007_199_254_740_992.0) as u64
}

/// The visitor's time, for templates that print a date.
pub(crate) fn local_time() -> WallTime {
    let now = Date::new_0();
    WallTime {
        year: now.get_full_year() as i32,
        month: now.get_month() as u8 + 1,
        day: now.get_date() as u8,
        hour: now.get_hours() as u8,
        minute: now.get_minutes() as u8,
        second: now.get_seconds() as u8,
    }
}

/// Awaits a load and passes its progress on.
pub(crate) async fn telling_progress<T>(
    loading: impl Future<Output = T>,
    progress: &Latch<LoadProgress>,
    on_progress: &Function,
) -> T {
    pin_mut!(loading);
    let mut version = 0;
    loop {
        let changed = progress.changed(version);
        pin_mut!(changed);
        match select(loading.as_mut(), changed).await {
            Either::Left((loaded, _)) => return loaded,
            Either::Right((now, _)) => {
                version = progress.version();
                call(on_progress, &Progress::from(now));
            }
        }
    }
}

/// A value for the script.
pub(crate) fn to_script<T: Tsify + Serialize>(value: &T) -> Result<Ts<T>, Failure> {
    value.into_ts().map_err(|error| Failure::new(FailureKind::Other, &error))
}

/// Tells the script something that it may miss: progress that cannot be shown is no reason to stop.
pub(crate) fn call<T: Tsify + Serialize>(listener: &Function, value: &T) {
    if let Ok(value) = value.into_ts() {
        let _ = listener.call1(&JsValue::NULL, &value.into());
    }
}

/// Tells the script something and waits until it is ready for more.
pub(crate) async fn tell<T: Tsify + Serialize>(listener: &Function, value: &T) -> Result<(), Failure> {
    let told = listener.call1(&JsValue::NULL, &to_script(value)?.into());
    let broken = |error: JsValue| Failure {
        kind: FailureKind::Other,
        message: format!("the page does not take the reply: {}", text_of(&error)),
    };
    match told.map_err(broken)?.dyn_into::<Promise>() {
        Ok(ready) => JsFuture::from(ready).await.map(drop).map_err(broken),
        Err(_) => Ok(()),
    }
}
