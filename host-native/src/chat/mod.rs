//! `fanlight chat`: a conversation on the command line.

mod command;
mod conversation;
mod options;
mod speak;

pub use options::ChatOptions;

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::{fs, io};

use anyhow::{Context, Result};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use fanlight_actors::kit::World;
use fanlight_messages::protocol::engine::{ChatRole, ChatTurn};
use fanlight_messages::reply::Think;

use crate::cache::user_folder;
use crate::report::print_text;
use crate::start::Start;
use crate::stop::{INTERRUPTED, Interrupts};
use command::{HELP, Input, Lines, parse};
use conversation::Conversation;
use speak::Speaker;

/// Entries of the history: what a person looks back on.
const HISTORY_MAX: usize = 1000;

/// Runs the command, until its input ends.
pub fn chat(options: &ChatOptions) -> Result<ExitCode> {
    let sampling = Rc::new(options.sampling.sampling()?);
    let about = |path: &PathBuf| format!("cannot read {}", path.display());
    let file = options.file.as_ref().map(|path| fs::read_to_string(path).with_context(|| about(path)));
    let file = file.transpose()?;
    World::run(|world, _| async move {
        let mut interrupts = Interrupts::listen()?;
        let start = Start {
            model: &options.model,
            context: options.context,
            kv: options.kv,
            budget: &options.budget,
        };
        let Some((handle, loaded)) = start.load(&world, &mut interrupts).await? else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        let think = if options.think { Think::On } else { Think::Off };
        let limit = options.token_limit;
        let mut speaker = Speaker { handle, loaded, interrupts, sampling, think, limit, last: None };
        let conversation = Conversation { system: options.system.clone(), turns: Vec::new() };
        let mut chat = Chat { conversation, file };
        let mut keyboard = Keyboard::new(!options.no_history)?;
        eprintln!("/help lists the commands; Ctrl-D ends");
        while let Some(text) = keyboard.read()? {
            match parse(&text) {
                Ok(None) => {}
                Ok(Some(Input::Exit)) => break,
                Ok(Some(input)) => {
                    // What fails leaves the conversation as it was.
                    if let Err(error) = chat.take(input, &mut speaker).await {
                        eprintln!("fanlight: {error:#}");
                    }
                }
                Err(error) => eprintln!("fanlight: {error}"),
            }
        }
        speaker.handle.unload().await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// What the commands change.
struct Chat {
    conversation: Conversation,
    /// What still comes before the next message.
    file: Option<String>,
}

impl Chat {
    async fn take(&mut self, input: Input, speaker: &mut Speaker) -> Result<()> {
        match input {
            Input::Say(text) => {
                let text = match self.file.take() {
                    Some(file) => format!("{file}\n\n{text}"),
                    None => text,
                };
                self.conversation.turns.push(ChatTurn::new(ChatRole::User, text));
                self.answer(speaker).await?;
            }
            Input::Again => {
                let before = self.conversation.clone();
                if !self.conversation.take_back() {
                    eprintln!("fanlight: nothing was said yet");
                } else if let Err(error) = self.answer(speaker).await {
                    self.conversation = before;
                    return Err(error);
                }
            }
            Input::System(text) => self.conversation.system = text,
            Input::Clear => self.conversation.turns.clear(),
            Input::Save(path) => self.conversation.save(&path)?,
            Input::Load(path) => {
                self.conversation = Conversation::load(&path)?;
                eprintln!("{} messages", self.conversation.turns.len());
            }
            Input::Think(think) => speaker.think = if think { Think::On } else { Think::Off },
            Input::Stats => match &speaker.last {
                Some(line) => eprintln!("{line}"),
                None => eprintln!("fanlight: nothing was said yet"),
            },
            Input::Help => drop(print_text(HELP)),
            Input::Exit => {}
        }
        Ok(())
    }

    /// Has the model answer; a message that it could not answer is taken back.
    async fn answer(&mut self, speaker: &mut Speaker) -> Result<()> {
        match speaker.reply(self.conversation.prompt()).await {
            Ok(reply) => {
                self.conversation.turns.push(reply);
                Ok(())
            }
            Err(error) => {
                self.conversation.turns.pop();
                Err(error)
            }
        }
    }
}

/// Where lines come from: a terminal with a history, or a file.
struct Keyboard {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl Keyboard {
    fn new(keeps_history: bool) -> Result<Self> {
        let config = rustyline::Config::builder().max_history_size(HISTORY_MAX)?.build();
        let mut editor = DefaultEditor::with_config(config)?;
        let history =
            keeps_history.then(user_folder).flatten().map(|folder| folder.join("fanlight/chat-history"));
        if let Some(path) = &history {
            // The first chat has none yet.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// What is entered next, perhaps on several lines; `None` at the end. Ctrl-C drops what was begun.
    fn read(&mut self) -> Result<Option<String>> {
        let mut lines = Lines::default();
        loop {
            let prompt = if lines.is_open() { ". " } else { "> " };
            match self.editor.readline(prompt) {
                Ok(line) => {
                    let Some(text) = lines.push(&line) else { continue };
                    if !text.trim().is_empty() {
                        self.editor.add_history_entry(&text)?;
                        self.keep();
                    }
                    return Ok(Some(text));
                }
                Err(ReadlineError::Interrupted) => lines = Lines::default(),
                Err(ReadlineError::Eof) => return Ok(None),
                Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes the history; a folder that cannot be written is no reason to stop.
    fn keep(&mut self) {
        let Some(path) = &self.history else { return };
        let folder = path.parent().map(fs::create_dir_all);
        let kept = self.editor.save_history(path);
        if folder.is_some_and(|made| made.is_err()) || kept.is_err() {
            eprintln!("fanlight: the history cannot be kept at {}", path.display());
            self.history = None;
        }
    }
}
