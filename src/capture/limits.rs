//! The limits that will be reached, by the samples in a capture.

use std::time::Duration;

use super::entry::kind;
use super::node::NodeSample;
use super::read::{Capture, CaptureMoment};
use crate::clock::Wall;
use crate::diagnosis::forecast::{LimitForecast, LimitHistory};

impl Capture {
    /// Returns the limits that will be reached, by the samples of the same session until `moment`, which was at `wall`.
    pub fn forecasts(&self, moment: CaptureMoment, wall: Wall) -> Vec<LimitForecast> {
        let mut history = LimitHistory::default();
        let is_before = |at: CaptureMoment| at <= moment && at.session == moment.session;
        for document in self.documents.iter().filter(|one| one.kind == kind::NODE && is_before(one.at)) {
            let text = self.text(document);
            let sample: Option<NodeSample> = text.and_then(|text| serde_json::from_slice(&text).ok());
            if let Some((sample, pods)) = sample.and_then(|sample| sample.pods.map(|pods| (sample, pods))) {
                history.add(Duration::from_nanos(document.at.mono), pods, &sample.measured_limits());
            }
        }
        history.forecasts(Duration::from_nanos(moment.mono), wall)
    }
}
