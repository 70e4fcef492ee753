//! What the browser keeps for the engine from one visit to the next: replies for drafts to be made from, and
//! what steps cost.
//!
//! Where it lies is the page's business (`sdk/src/records.ts`). Without it everything works and is told once.

use std::cell::{Cell, RefCell};

use js_sys::{Function, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};

use fanlight_actors::costs::CostStore;
use fanlight_actors::memory::{MemoryStorage, STORE_BYTES_MAX};
use fanlight_messages::error::CostStoreError;
use fanlight_messages::protocol::memory::{MemoryKey, StoreFault};

use crate::error::text_of;
use crate::wire::Notice;

/// Most bytes of a record of costs that are read: many times what one has, so that a larger one is none.
const COSTS_BYTES_MAX: usize = 4096;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** Keeps small records for all engines of the origin. Its functions reject where the browser refuses. */
export interface Records {
    /** What is kept under a name. */
    read(kind: RecordKind, name: string): Promise<unknown>;
    write(kind: RecordKind, name: string, bytes: Uint8Array): Promise<void>;
    /** The names of what is kept. */
    names(kind: RecordKind): Promise<string[]>;
    /** Waits until no other engine changes records; the function that it resolves to lets others. */
    lock(): Promise<() => void>;
}
export type RecordKind = "memory" | "costs";
"#;

#[wasm_bindgen]
extern "C" {
    /// Keeps small records.
    #[wasm_bindgen(typescript_type = "Records")]
    #[derive(Clone)]
    pub type Records;
    #[wasm_bindgen(method, catch)]
    async fn read(this: &Records, kind: &str, name: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    async fn write(this: &Records, kind: &str, name: &str, bytes: Uint8Array) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    async fn names(this: &Records, kind: &str) -> Result<JsValue, JsValue>;
    #[wasm_bindgen(method, catch)]
    async fn lock(this: &Records) -> Result<JsValue, JsValue>;
}

/// Session memories, one per tokenizer.
const MEMORY: &str = "memory";
/// What was measured, by adapter and model.
const COSTS: &str = "costs";

/// The right to change records, until it is dropped.
struct Turn(Function);

impl Drop for Turn {
    fn drop(&mut self) {
        // A function of the worker's own that only resolves a promise.
        let _ = self.0.call0(&JsValue::NULL);
    }
}

/// The browser's records as the engine uses them.
#[derive(Clone)]
pub struct BrowserRecords(Records);

fn refused(thrown: JsValue) -> String {
    text_of(&thrown)
}

impl BrowserRecords {
    /// On what the page hands over.
    pub fn new(records: Records) -> Self {
        Self(records)
    }

    /// At most `most` bytes and one, so that a larger record is seen to be none.
    async fn bytes(&self, kind: &str, name: &str, most: usize) -> Result<Option<Vec<u8>>, String> {
        let found = self.0.read(kind, name).await.map_err(refused)?;
        match found.dyn_ref::<Uint8Array>() {
            Some(bytes) => Ok(Some(bytes.subarray(0, bytes.length().min(most as u32 + 1)).to_vec())),
            None if found.is_undefined() => Ok(None),
            // Something that no engine has put there.
            None => Ok(Some(vec![0])),
        }
    }

    async fn turn(&self) -> Result<Turn, String> {
        let end = self.0.lock().await.map_err(refused)?;
        end.dyn_into().map(Turn).map_err(refused)
    }

    async fn put(&self, kind: &str, name: &str, bytes: &[u8]) -> Result<(), String> {
        self.0.write(kind, name, Uint8Array::from(bytes)).await.map(drop).map_err(refused)
    }
}

/// The name of a tokenizer's memory.
fn memory_name(key: MemoryKey) -> String {
    key.tokenizer.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl MemoryStorage for BrowserRecords {
    async fn read(&self, key: MemoryKey) -> Result<Option<Vec<u8>>, String> {
        self.bytes(MEMORY, &memory_name(key), STORE_BYTES_MAX).await
    }

    async fn update(
        &self,
        key: MemoryKey,
        change: impl FnOnce(Option<&[u8]>) -> Vec<u8>,
    ) -> Result<(), String> {
        let _turn = self.turn().await?;
        let name = memory_name(key);
        let stored = self.bytes(MEMORY, &name, STORE_BYTES_MAX).await?;
        self.put(MEMORY, &name, &change(stored.as_deref())).await
    }

    async fn update_all(&self, mut change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<(), String> {
        let _turn = self.turn().await?;
        let names = self.0.names(MEMORY).await.map_err(refused)?;
        for name in js_sys::Array::from(&names).iter().filter_map(|name| name.as_string()) {
            let stored = self.bytes(MEMORY, &name, STORE_BYTES_MAX).await?;
            self.put(MEMORY, &name, &change(stored.as_deref())).await?;
        }
        Ok(())
    }
}

impl CostStore for BrowserRecords {
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, CostStoreError> {
        let found = self.bytes(COSTS, name, COSTS_BYTES_MAX).await;
        found.map_err(|reason| CostStoreError::Store { reason })
    }

    async fn write(&self, name: &str, record: &[u8]) -> Result<(), CostStoreError> {
        self.put(COSTS, name, record).await.map_err(|reason| CostStoreError::Store { reason })
    }
}

/// What the visitor should know of records. That the browser refuses them is told once: it will not change
/// its mind.
#[derive(Debug, Default)]
pub struct Notes {
    untold: RefCell<Vec<Notice>>,
    is_refusal_known: Cell<bool>,
}

impl Notes {
    /// Notes what is wrong with the session memory.
    pub fn fault(&self, fault: Option<StoreFault>) {
        match fault {
            None => {}
            Some(fault @ (StoreFault::Unreadable { .. } | StoreFault::Unwritable { .. })) => {
                self.refusal(fault.to_string());
            }
            Some(fault) => self.note("memory-dropped", fault.to_string()),
        }
    }

    /// Notes that the browser keeps nothing.
    pub fn refusal(&self, message: String) {
        if !self.is_refusal_known.replace(true) {
            self.note("not-remembered", message);
        }
    }

    fn note(&self, code: &str, message: String) {
        self.untold.borrow_mut().push(Notice { code: code.to_owned(), message });
    }

    /// What was not told yet.
    pub fn take(&self) -> Vec<Notice> {
        self.untold.take()
    }
}
