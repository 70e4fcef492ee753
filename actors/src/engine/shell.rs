//! The engine's loop: the only door for hosts. One load or one reply at a time; whoever comes meanwhile hears
//! that the engine is busy, and a cancel is heard at any time.

use std::rc::Rc;

use fanlight_messages::error::{Gone, LoadError};
use fanlight_messages::protocol::controller::ForgetCosts;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::{ForgetMemory, ResetConversation};
use fanlight_messages::protocol::telemetry::Facts;

use super::door::{Door, Stop};
use super::load::load;
use super::mail::{EngineLinks, EngineMail};
use super::prompt::{detokenize, tokenize};
use super::state::{Engine, unless_gone};
use crate::controller::ControllerMail;
use crate::kit::{Asked, Latch, Mailbox};
use crate::memory::MemoryMail;
use crate::source::NamedSource;

/// The engine's loop. It ends when every handle is dropped, or with the first of its actors that fails.
pub async fn engine(
    mailbox: Mailbox<EngineMail>,
    links: EngineLinks,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut engine, mut door) = (Engine::new(links), Door::new(mailbox));
    while let Some(mail) = engine.idle(&mut door).await? {
        match engine.serve(mail, &mut door).await? {
            Some(Stop::Cancel(asked)) => asked.reply.send(()),
            Some(Stop::Unload(asked)) => asked.reply.send(unless_gone(engine.unload().await?)?),
            Some(Stop::HostsGone) => break,
            Some(Stop::ReaderGone) | None => {}
        }
    }
    Ok(())
}

impl Engine {
    /// Serves one request; what stopped it is answered when the engine is idle.
    async fn serve(&mut self, mail: EngineMail, door: &mut Door) -> Result<Option<Stop>, Gone> {
        match mail {
            EngineMail::Load(asked, sources, progress) => self.load(asked, sources, progress, door).await,
            EngineMail::Budget(asked, progress) => Ok(self.set_budget((asked, progress), door).await?.1),
            EngineMail::Generate(asked, events, asked_us) => {
                self.generate(asked, events, asked_us, door).await
            }
            EngineMail::Cancel(asked) => Ok(Some(Stop::Cancel(asked))),
            EngineMail::Unload(asked) => Ok(Some(Stop::Unload(asked))),
            EngineMail::Reset(asked) => {
                self.journal.clear();
                self.links.memory.tell(MemoryMail::Reset(ResetConversation)).await?;
                asked.reply.send(Ok(()));
                Ok(None)
            }
            EngineMail::Forget(asked) => {
                asked.reply.send(self.links.memory.ask(ForgetMemory).await?);
                Ok(None)
            }
            EngineMail::Tokenize(asked) => {
                asked.reply.send(tokenize(&asked.request, self.model.as_ref()));
                Ok(None)
            }
            EngineMail::Detokenize(asked) => {
                asked.reply.send(detokenize(&asked.request, self.model.as_ref()));
                Ok(None)
            }
        }
    }

    /// Loads in place of the model before.
    async fn load(
        &mut self,
        asked: Asked<Load>,
        sources: Vec<NamedSource>,
        progress: Latch<LoadProgress>,
        door: &mut Door,
    ) -> Result<Option<Stop>, Gone> {
        if let Err(error) = unless_gone(self.unload().await?)? {
            asked.reply.send(Err(error));
            return Ok(None);
        }
        let loading = load(&self.links, &asked.request, sources, progress);
        let (loaded, stop) = match door.while_busy(loading).await {
            Ok(loaded) => (loaded, None),
            Err(stop) => (Err(LoadError::Cancelled), Some(stop)),
        };
        door.note(&loaded);
        match loaded {
            Ok((model, answer)) => {
                let facts = Facts {
                    adapter: Some(Rc::new(answer.adapter.clone())),
                    model: Some(Rc::new(model.facts(&answer.plan))),
                    quarantined: answer.quarantined.iter().cloned().collect(),
                };
                self.links.telemetry.change_facts(|known| *known = facts);
                self.links.controller.tell(ControllerMail::Forget(ForgetCosts)).await?;
                self.model = Some(model);
                asked.reply.send(Ok(answer));
            }
            Err(error) => {
                asked.reply.send(Err(error.clone()));
                unless_gone::<()>(Err(error))?.ok();
                // The pager stops at once; this waits for what it gives back.
                unless_gone(self.unload().await?)?.ok();
            }
        }
        Ok(stop)
    }
}
