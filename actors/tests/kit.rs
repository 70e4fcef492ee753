//! The actor kit: lanes, back-pressure, the ends of actors, and what their askers hear.

use std::cell::RefCell;
use std::rc::Rc;

use fanlight_actors::kit::{Asked, Capacities, Exit, Failure, Gone, Latch, Mail, Mailbox, World};
use fanlight_messages::protocol::{Lane, Request};
use futures::FutureExt;

#[derive(Debug, Clone, PartialEq)]
struct Echo(u32);

impl Request for Echo {
    type Reply = u32;
}

enum TestMail {
    Echo(Asked<Echo>),
    Urgent(u32),
    Forget(Asked<Echo>),
    Fail,
    Panic,
}

impl Mail for TestMail {
    fn lane(&self) -> Lane {
        match self {
            Self::Urgent(_) => Lane::Control,
            _ => Lane::Inbox,
        }
    }
}

impl From<Asked<Echo>> for TestMail {
    fn from(asked: Asked<Echo>) -> Self {
        Self::Echo(asked)
    }
}

type Log = Rc<RefCell<Vec<u32>>>;

async fn echo(mut mailbox: Mailbox<TestMail>, log: Log) -> Result<(), Box<dyn std::error::Error>> {
    while let Some(mail) = mailbox.next().await {
        match mail {
            TestMail::Echo(asked) => {
                log.borrow_mut().push(asked.request.0);
                asked.reply.send(asked.request.0);
            }
            TestMail::Urgent(value) => log.borrow_mut().push(value),
            TestMail::Forget(asked) => drop(asked),
            TestMail::Fail => return Err("asked to fail".into()),
            TestMail::Panic => panic!("asked to panic"),
        }
    }
    Ok(())
}

/// What askers of the actor are told when it has ended.
const GONE: Gone = Gone { actor: "echo" };

const CAPACITIES: Capacities = Capacities { control: 2, inbox: 2 };

#[test]
fn control_is_read_before_the_inbox_and_each_lane_in_order() {
    let log = Log::default();
    let seen = log.clone();
    World::run(|world, mut exits| async move {
        let addr = world.spawn("echo", CAPACITIES, |mailbox| echo(mailbox, seen));
        let first = addr.start(Echo(1), Into::into).await.unwrap();
        let second = addr.start(Echo(2), Into::into).await.unwrap();
        assert!(addr.try_tell(TestMail::Urgent(10)));
        assert!(addr.try_tell(TestMail::Urgent(11)));
        assert!(!addr.try_tell(TestMail::Urgent(12)), "the lane is full");
        assert!(addr.tell(TestMail::Fail).now_or_never().is_none(), "a full inbox makes its senders wait");
        assert_eq!((first.wait().await, second.wait().await), (Ok(1), Ok(2)));
        drop(addr);
        let exit = exits.next().await.unwrap();
        assert!(exit.result.is_ok(), "an actor ends when every address is dropped");
    });
    assert_eq!(*log.borrow(), [10, 11, 1, 2]);
}

#[test]
fn whoever_asks_an_actor_that_ends_hears_so() {
    for ending in [|| TestMail::Fail, || TestMail::Panic] {
        World::run(|world, mut exits| async move {
            let addr = world.spawn("echo", CAPACITIES, |mailbox| echo(mailbox, Log::default()));
            addr.tell(ending()).await.unwrap();
            // Queued behind the end, waiting for room behind it, and asked after it.
            let queued = addr.start(Echo(1), Into::into).await.unwrap();
            let (waiting, queued) = futures::join!(addr.ask(Echo(2)), queued.wait());
            assert_eq!((waiting, queued), (Err(GONE), Err(GONE)));
            assert_eq!(addr.ask(Echo(3)).await, Err(GONE));
            let Exit { name, result } = exits.next().await.unwrap();
            assert_eq!(name, "echo");
            match result.unwrap_err() {
                Failure::Error(error) => assert_eq!(error.to_string(), "asked to fail"),
                Failure::Panic(text) => assert_eq!(text, "asked to panic"),
            }
        });
    }
}

#[test]
fn a_dropped_reply_is_heard_and_the_actor_goes_on() {
    World::run(|world, _| async move {
        let addr = world.spawn("echo", CAPACITIES, |mailbox| echo(mailbox, Log::default()));
        assert_eq!(addr.ask_with(Echo(1), TestMail::Forget).await, Err(GONE));
        assert_eq!(addr.ask(Echo(2)).await, Ok(2));
    });
}

#[test]
fn a_latch_shows_the_last_value() {
    let latch = Latch::new(0);
    let other = latch.clone();
    let changed = latch.changed(latch.version());
    futures::pin_mut!(changed);
    assert!(changed.as_mut().now_or_never().is_none());
    other.set(1);
    other.set(2);
    assert_eq!(changed.as_mut().now_or_never(), Some(2));
    assert_eq!((latch.get(), latch.version()), (2, 2));
}
