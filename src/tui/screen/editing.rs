//! Editing a working copy, in the learner's editor or here; what is typed is not lost, however the screen ends.

use std::path::Path;

use super::{End, Screen, ScreenError};
use crate::session::Message;
use crate::tui::app;
use crate::tui::builtin::BuiltIn;
use crate::tui::editor::{self, Editor};
use crate::tui::preview;
use crate::tui::terminal::Surface;

/// How it went with the learner's editor.
enum Edited {
    Done,
    Failed(String),
    /// The program was told to end meanwhile.
    Ended(End),
}

impl<S: Surface> Screen<'_, S> {
    /// The event stream must be gone while something else reads keys, else they are split between the two.
    pub(super) async fn edit(
        &mut self,
        file: &str,
        line: Option<usize>,
    ) -> Result<Option<End>, ScreenError> {
        let path = match self.driver.working_copy(file) {
            Ok(path) => path,
            Err(error) => {
                self.app.flash = Some(error.to_string());
                return Ok(None);
            }
        };
        let words = match editor::command() {
            Ok(words) => words,
            Err(why) => {
                self.edit_here(file, line);
                self.app.flash = Some(why);
                return Ok(None);
            }
        };
        let before = std::fs::read(&path).ok();
        self.events = None;
        self.surface.lend();
        let edited = self.wait_for_editor(&words, &path, line).await?;
        self.signals.forget_keys().await;
        if let Edited::Ended(end) = edited {
            return Ok(Some(end));
        }
        if let Some(end) = self.take_back() {
            return Ok(Some(end));
        }
        self.events = Some(self.surface.events());
        self.stale_texts = true;
        if let Edited::Failed(why) = edited {
            self.app.flash = Some(why);
        } else if before == std::fs::read(&path).ok() {
            self.app.flash = Some("not changed".to_owned());
        } else {
            self.saved(file)?;
        }
        Ok(None)
    }

    /// The session goes on meanwhile; only nothing is drawn.
    async fn wait_for_editor(
        &mut self,
        words: &[String],
        path: &Path,
        line: Option<usize>,
    ) -> Result<Edited, ScreenError> {
        let mut editor = match Editor::start(words, path, line) {
            Ok(editor) => editor,
            Err(why) => return Ok(Edited::Failed(why)),
        };
        loop {
            let waiting = self.driver.state().wait().is_some();
            let arrival = tokio::select! {
                biased;
                end = self.signals.end_beside_an_editor() => {
                    editor.stop().await;
                    return Ok(Edited::Ended(end));
                }
                edited = editor.ended() => {
                    return Ok(edited.map_or_else(Edited::Failed, |()| Edited::Done));
                }
                arrival = self.arrivals.next(self.driver, waiting) => arrival,
            };
            if let Err(error) = self.arrived(arrival) {
                editor.stop().await;
                return Err(error);
            }
        }
    }

    /// Opens the built-in editor. What was typed before and not saved is offered first.
    pub(super) fn edit_here(&mut self, file: &str, line: Option<usize>) {
        match self.driver.unsaved_text(file) {
            Ok(None) => self.open_here(file, None, line),
            Ok(Some(_)) => self.app.overlay = Some(app::unsaved(file)),
            Err(error) => self.app.flash = Some(error.to_string()),
        }
    }

    /// Takes up what was typed and not saved, or drops it.
    pub(super) fn take_up(&mut self, file: &str, keep: bool) {
        let taken = if keep {
            self.driver.unsaved_text(file)
        } else {
            self.driver.drop_unsaved(file).map(|()| None)
        };
        match taken {
            Ok(text) => self.open_here(file, text, None),
            Err(error) => self.app.flash = Some(error.to_string()),
        }
    }

    /// Opens the built-in editor on the working copy, with another text in it where there is one. A copy that cannot be read
    /// is not opened: saving would overwrite what is in it.
    fn open_here(&mut self, file: &str, text: Option<String>, line: Option<usize>) {
        let copy = match self.driver.copy_text(file) {
            Ok(copy) => copy.unwrap_or_else(|| self.driver.original(file)),
            Err(error) => {
                self.app.flash = Some(error.to_string());
                return;
            }
        };
        let mut editor = BuiltIn::new(file, &copy, line, self.app.theme);
        if let Some(text) = text {
            editor.put(&text);
        }
        self.app.editor = Some(editor);
    }

    pub(super) fn save(&mut self, file: &str, text: &str) -> Result<(), ScreenError> {
        if let Err(error) = self.driver.write_copy(file, text) {
            if let Err(error) = self.driver.keep_unsaved(file, text) {
                tracing::warn!(%error, "what was typed is in the editor alone");
            }
            self.open_here(file, Some(text.to_owned()), None);
            self.app.flash = Some(error.to_string());
            return Ok(());
        }
        if let Err(error) = self.driver.drop_unsaved(file) {
            tracing::warn!(%error, "what was not saved before stays beside the working copy");
        }
        if self.app.editor.is_some() {
            // What is wrong stands in the editor, at its line.
            self.driver.tell(Message::Edited {
                manifest: file.to_owned(),
            })?;
            self.state_changed();
            return Ok(());
        }
        self.saved(file)
    }

    /// A save is checked, and what it would flip is shown.
    fn saved(&mut self, file: &str) -> Result<(), ScreenError> {
        self.driver.tell(Message::Edited {
            manifest: file.to_owned(),
        })?;
        self.state_changed();
        self.preview(file);
        Ok(())
    }

    /// Does what Enter offers. What would be applied and differs from what is applied is looked at first, whoever has
    /// edited it.
    pub(super) fn go_on(&mut self) -> Result<(), ScreenError> {
        if let Some(file) = preview::due(self.driver)? {
            self.state_changed();
            self.preview(&file);
            return Ok(());
        }
        self.app.text.top = 0;
        self.tell(Message::Next)
    }

    pub(super) fn preview(&mut self, file: &str) {
        self.app.overlay = Some(preview::of(self.driver, file));
        self.app.scene.stale_block = true;
    }
}

impl<S> Screen<'_, S> {
    /// Keeps what is in the built-in editor and was not saved, beside the working copy.
    fn keep_typed(&mut self) {
        let editor = self.app.editor.take().filter(BuiltIn::is_changed);
        let Some(editor) = editor else { return };
        if let Err(error) = self.driver.keep_unsaved(&editor.manifest, &editor.text()) {
            tracing::error!(%error, "what was typed could not be kept");
        }
    }
}

/// By a key, a signal, a hang-up or a panic.
impl<S> Drop for Screen<'_, S> {
    fn drop(&mut self) {
        self.keep_typed();
    }
}
