//! Handles the keys of `top`: passes each key to the view, and does what the view then asks for: quit, pause, change the
//! speed, seek, or write a bundle.

use std::path::PathBuf;

use super::engine_run::{EngineRun, Flow};
use super::explanation;
use super::screen;
use super::ui::{Ui, size};
use super::view::{Action, Key, RowId, Rows};
use crate::capture::split_path_and_time;
use crate::cmd::CAPTURE;
use crate::cmd::health::save_bundle;
use crate::cmd::session::Session;
use crate::cri::Endpoint;
use crate::diagnosis::CallersPendingCall;
use crate::test_settings;

impl EngineRun<'_> {
    /// Passes a key to the view, and does what the view asks for.
    pub fn key(&self, key: Key, ui: &mut Ui) -> Flow {
        if let Key::Char(letter) = key {
            test_settings::panic_at_key(letter);
        }
        let now = self.moment();
        let action = {
            let model = self.model();
            let (model, moment) = match &ui.frozen {
                Some(frozen) => (&frozen.0, frozen.1),
                None => (&*model, now),
            };
            let rows = Rows::matching(model, &ui.view.filter, moment.mono).ids();
            let (width, height) = size();
            let height = screen::page_height(height, model, ui.view.replay.is_some());
            let explain =
                |row: Option<&RowId>| screen::page_lines(&explanation::lines(model, row, moment.mono), width);
            ui.view.columns = width;
            ui.view.key(key, &rows, height, explain)
        };
        match action {
            None => {}
            Some(Action::Quit) => return Flow::Quit,
            Some(Action::Redraw) => ui.redraw(),
            Some(Action::Pause) => {
                ui.view.paused = !ui.view.paused;
                match self.session.playback() {
                    Some(playback) => {
                        playback.set_speed(ui.chosen_speed());
                        playback.pause(ui.view.paused);
                    }
                    None if ui.view.paused => ui.frozen = Some(Box::new((self.model().clone(), now))),
                    None => ui.frozen = None,
                }
            }
            Some(Action::Bundle(path)) => {
                let path = path.map(|path| PathBuf::from(path.trim())).or_else(|| ui.bundle_file.clone());
                if let Some(path) = path {
                    self.save_bundle(path, ui);
                }
            }
            Some(Action::Speed { faster }) => {
                ui.change_speed(faster);
                // A seek runs at full speed, and takes the chosen speed at its end.
                if let Some(playback) = self.session.playback().filter(|_| self.seek_to.get().is_none()) {
                    playback.set_speed(ui.chosen_speed());
                }
            }
            Some(Action::Move(movement)) => return self.seek(movement, ui),
        }
        Flow::Continue
    }

    /// Starts to diagnose the node and to write a bundle.
    fn save_bundle(&self, path: PathBuf, ui: &mut Ui) {
        if ui.bundle.is_running() {
            ui.view.message = Some("a bundle is being written already".to_owned());
            return;
        }
        ui.view.message = Some(format!("collecting a bundle for {}: this takes up to 30s", path.display()));
        let now = self.moment();
        let (node, endpoint) = (self.session.node.without_remarks(), self.session.endpoint.clone());
        // A bundle from a capture is about the moment that the screen shows.
        let (node, endpoint) = match endpoint {
            Endpoint::Custom { scheme, name } => {
                let what = format!("{}@{}", split_path_and_time(&name).0, now.wall);
                (node.at_endpoint(&format!("{CAPTURE}{what}")), Endpoint::Custom { scheme, name: what })
            }
            endpoint => (node, endpoint),
        };
        let wanted_lists = self.session.wanted_lists;
        // A live diagnosis must not repeat the call that hangs.
        let known = self.model().open().map(|open| CallersPendingCall {
            rpc: open.rpc,
            id: open.id.clone(),
            waited: now.mono.since(open.started),
            ended: None,
        });
        let known: Vec<CallersPendingCall> =
            known.into_iter().filter(|_| !matches!(endpoint, Endpoint::Custom { .. })).collect();
        ui.bundle.start(async move {
            let saved = async {
                let session = Session::at(&node, endpoint)?.listing_with(wanted_lists);
                Box::pin(save_bundle(&session, known, &path)).await
            };
            match saved.await {
                Ok(report) => {
                    format!("bundle ({}) in {}", report.verdict.as_str(), path.display())
                }
                Err(why) => format!("no bundle: {why}"),
            }
        });
    }
}
