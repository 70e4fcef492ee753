//! The pager's loop: open, plan, place, close. What takes long ends when its asker leaves.

use fanlight_messages::error::{DeviceError, GenerateError, LoadError};
use fanlight_messages::protocol::pager::StreamDecode;
use fanlight_messages::protocol::submitter::DropModel;

use super::mail::{PagerLinks, PagerMail};
use super::model::Model;
use super::refusals::Refusals;
use crate::kit::Mailbox;

/// The pager's loop. It ends when every address is dropped.
pub async fn pager(
    mut mailbox: Mailbox<PagerMail>,
    links: PagerLinks,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut model: Option<Model> = None;
    let mut refusals = Refusals::default();
    while let Some(mail) = mailbox.next().await {
        match mail {
            PagerMail::Open(mut asked, sources, file) => {
                model = None;
                let opened = asked.reply.while_wanted(Model::open(sources, &file)).await;
                let opened = opened.unwrap_or(Err(LoadError::Cancelled));
                mailbox.note(&opened);
                asked.reply.send(opened.map(|(opened, answer)| {
                    model = Some(opened);
                    answer
                }));
            }
            PagerMail::Plan(mut asked) => {
                let planned = match &mut model {
                    Some(model) => {
                        let plan = model.plan(&asked.request, &links, &mut refusals);
                        asked.reply.while_wanted(plan).await.unwrap_or(Err(LoadError::Cancelled))
                    }
                    None => Err(not_opened()),
                };
                mailbox.answer(asked.reply, planned);
            }
            PagerMail::Place(mut asked, progress) => {
                let placed = match &mut model {
                    Some(model) => model.place(&links, &progress, &mut asked.reply).await,
                    None => Err(not_opened()),
                };
                if let (Err(LoadError::Device(DeviceError::OutOfMemory { .. })), Some(model)) =
                    (&placed, &model)
                {
                    model.note_refusal(&mut refusals);
                }
                mailbox.answer(asked.reply, placed);
            }
            PagerMail::Decode(asked, events) => {
                let StreamDecode(begin) = asked.request;
                let result = match &model {
                    Some(model) => model.run(begin, events, &links).await,
                    None => Err(GenerateError::NoModel),
                };
                mailbox.answer(asked.reply, result);
            }
            PagerMail::Restore(mut asked) => {
                let restored = match &mut model {
                    Some(model) => model.restore(&links, &mut asked.reply).await,
                    None => Err(not_opened()),
                };
                mailbox.answer(asked.reply, restored);
            }
            PagerMail::Close(asked) => {
                model = None;
                asked.reply.send(links.submitter.ask(DropModel).await.map_err(Into::into));
            }
        }
    }
    Ok(())
}

fn not_opened() -> LoadError {
    LoadError::Model { reason: "no model file is open: open one first".into() }
}
