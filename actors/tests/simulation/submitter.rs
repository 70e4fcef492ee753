//! The submitter alone: an end that overtakes its beginning, and a run without a model.

use std::cell::Cell;
use std::rc::Rc;

use fanlight_actors::controller::controller;
use fanlight_actors::kit::{Addr, Capacities, Clock, Latch, World, stream};
use fanlight_actors::pager::{InspectRequest, inspect};
use fanlight_actors::submitter::{Gaps, SubmitterLinks, SubmitterMail, submitter};
use fanlight_actors::telemetry::TelemetryLink;
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::WidthPolicy;
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::KvFormat;
use fanlight_messages::protocol::controller::PlanChosen;
use fanlight_messages::protocol::submitter::{BeginDecode, CreateModel, EndDecode, RunEvent, RunId, RunOver};

use crate::device::PaperBackend;
use crate::rig::{model_file, sources};

const CAPACITIES: Capacities = Capacities { control: 2, inbox: 3 };

fn start(world: &World, device: &PaperBackend) -> Addr<SubmitterMail> {
    let clock = Clock::simulated(Rc::new(Cell::new(0)));
    let plan = Latch::new(PlanChosen::default());
    let links = SubmitterLinks {
        controller: world.spawn("controller", CAPACITIES, |mailbox| controller(mailbox, plan.clone())),
        telemetry: TelemetryLink::start(world, clock.clone()),
        plan,
        gaps: Gaps::new(clock.clone()),
        clock,
    };
    world.spawn("submitter", CAPACITIES, |mailbox| submitter(mailbox, Rc::new(device.clone()), links))
}

async fn create_model(submitter: &Addr<SubmitterMail>) {
    let request =
        InspectRequest { context_len: Some(256), batch_tokens: 64, kv_format: KvFormat::F16, budget: None };
    let inspected = inspect(sources(model_file().to_bytes(), u64::MAX), request).await.unwrap();
    let (program, plan) = inspected.planned.unwrap();
    let create = CreateModel { program: Rc::new(program), plan: Rc::new(plan) };
    submitter.ask(create).await.unwrap().unwrap();
}

fn begin(run: u64) -> BeginDecode {
    let setup = RequestSetup { context_len: 256, token_limit: 9, ..RequestSetup::default() };
    BeginDecode {
        asked_us: Some(0),
        run: RunId(run),
        setup,
        base: 0,
        tokens: [1, 2, 3].into(),
        chunk_tokens: 64,
        windows_in_flight: 2,
        width: WidthPolicy::default(),
    }
}

#[test]
fn an_end_that_overtakes_its_beginning_ends_that_run_and_no_later_one() {
    World::run(|world, _| async move {
        let device = PaperBackend::new(1, Rc::default());
        let submitter = start(&world, &device);
        create_model(&submitter).await;
        // Both are queued before the submitter looks; it reads the control lane first.
        let (events, _unread) = stream::<RunEvent>(16);
        let run = submitter.start(begin(1), |asked| SubmitterMail::Begin(asked, events, None)).await.unwrap();
        let end = submitter.start(EndDecode { run: RunId(1) }, Into::into).await.unwrap();
        assert_eq!((end.wait().await, run.wait().await), (Ok(()), Ok(Ok(RunOver::default()))));
        assert_eq!(device.state.borrow().submissions, 0);

        let (events, mut told) = stream(3);
        let run = submitter.start(begin(2), |asked| SubmitterMail::Begin(asked, events, None)).await.unwrap();
        let mut tokens = 0;
        while let Some(event) = told.next().await {
            let (RunEvent::PromptEvaluated { report, .. } | RunEvent::WindowCompleted { report, .. }) = event
            else {
                panic!("{event:?}");
            };
            tokens += report.tokens.len();
        }
        assert_eq!((run.wait().await, tokens), (Ok(Ok(RunOver::default())), 9));
    });
}

#[test]
fn a_run_without_a_model_is_refused() {
    World::run(|world, _| async move {
        let device = PaperBackend::new(1, Rc::default());
        let submitter = start(&world, &device);
        let (events, mut told) = stream::<RunEvent>(3);
        let run = submitter.ask_with(begin(1), |asked| SubmitterMail::Begin(asked, events, None)).await;
        assert_eq!(run, Ok(Err(DeviceError::NoModel)));
        assert!(told.next().await.is_none(), "the stream of a run ends with it");
    });
}
