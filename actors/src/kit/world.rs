//! Runs actors on one thread and hears of their ends. All conditional compilation of this crate is here.

use std::any::Any;
use std::error::Error;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use fanlight_messages::limits::EXITS;

use super::mailbox::{Addr, Capacities, Mailbox, mailbox};
use super::queue::{StreamReceiver, StreamSender, stream};

/// An actor ended.
#[derive(Debug)]
pub struct Exit {
    /// Which.
    pub name: &'static str,
    /// How.
    pub result: Result<(), Failure>,
}

/// An actor ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// With an error.
    #[error("{0}")]
    Error(Box<dyn Error>),
    /// With a panic; on the web a panic ends the whole worker instead.
    #[error("panicked: {0}")]
    Panic(String),
}

/// Spawns actors on this thread.
#[derive(Clone)]
pub struct World {
    exits: StreamSender<Exit>,
    #[cfg(not(target_arch = "wasm32"))]
    spawner: futures::executor::LocalSpawner,
}

impl World {
    /// Starts an actor: `body` is its loop. Its end is told once; when nobody reads the ends, later ones are
    /// dropped.
    pub fn spawn<M: 'static, F>(
        &self,
        name: &'static str,
        capacities: Capacities,
        body: impl FnOnce(Mailbox<M>) -> F,
    ) -> Addr<M>
    where
        F: Future<Output = Result<(), Box<dyn Error>>> + 'static,
    {
        let (addr, inbox) = mailbox(name, capacities);
        let gauge = addr.gauge();
        let exits = self.exits.clone();
        let body = AssertUnwindSafe(body(inbox)).catch_unwind();
        self.spawn_local(async move {
            let result = match body.await {
                Ok(result) => result.map_err(Failure::Error),
                Err(panic) => Err(Failure::Panic(panic_text(panic.as_ref()))),
            };
            if let Err(failure) = &result {
                gauge.fail(failure);
            }
            if let Some(permit) = exits.try_reserve() {
                permit.send(Exit { name, result });
            }
        });
        addr
    }

    /// Native: runs `root` and every actor on this thread until `root` ends. Actors that still run are
    /// dropped.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn run<T, F: Future<Output = T>>(root: impl FnOnce(World, StreamReceiver<Exit>) -> F) -> T {
        let mut pool = futures::executor::LocalPool::new();
        let (exits, receiver) = stream(EXITS);
        let root = root(World { exits, spawner: pool.spawner() }, receiver);
        pool.run_until(root)
    }

    /// Web: the event loop runs the actors.
    #[cfg(target_arch = "wasm32")]
    pub async fn run<T, F: Future<Output = T>>(root: impl FnOnce(World, StreamReceiver<Exit>) -> F) -> T {
        let (exits, receiver) = stream(EXITS);
        root(World { exits }, receiver).await
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn spawn_local(&self, actor: impl Future<Output = ()> + 'static) {
        use futures::task::LocalSpawnExt;
        // A world that has ended runs nothing more: the mailbox is dropped with the actor, and askers hear
        // `Gone`.
        let _ = self.spawner.spawn_local(actor);
    }

    #[cfg(target_arch = "wasm32")]
    fn spawn_local(&self, actor: impl Future<Output = ()> + 'static) {
        wasm_bindgen_futures::spawn_local(actor);
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
