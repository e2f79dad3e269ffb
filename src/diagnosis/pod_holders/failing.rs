//! What keeps a pod from ending or from starting because it fails: the runtime answers at once, with an error.

use super::judge::HolderCase;
use super::report::{HolderKind, PodHolder};
use super::start::Direction;
use crate::diagnosis::facts::FactKind;
use crate::diagnosis::failing_pods::{FailingPod, FailureCause};
use crate::diagnosis::rules::failing_pods;
use crate::report::Confidence;

impl HolderCase<'_> {
    /// Returns the steps for this pod that fail: *certain* if they fail again and again.
    pub(super) fn failing_steps(&self, direction: Direction) -> Vec<PodHolder> {
        let persisting = failing_pods::persisting(self.evidence);
        let errors = self.evidence.journal.iter().flat_map(|journal| &journal.failing_pods);
        let own = errors.filter(|failing| self.is_this(&failing.pod) && is_in(failing, direction));
        let own = own.filter(|failing| failing_pods::may_last(self.evidence, failing));
        own.map(|failing| {
            let confidence =
                if persisting.contains(&failing) { Confidence::Certain } else { Confidence::Likely };
            self.failing_step(failing, confidence)
        })
        .collect()
    }

    fn failing_step(&self, failing: &FailingPod, confidence: Confidence) -> PodHolder {
        let is_network = failing.cause == FailureCause::Network;
        let kind = if is_network { HolderKind::Network } else { HolderKind::Runtime };
        let (step, cause) = (failing.step, failing.cause);
        let title = FactKind::StepFails { step, cause, words: (&failing.words).into() };
        let mut holder = PodHolder::new(kind, confidence, title.to_string());
        holder.process.clone_from(&failing.plugin);
        holder.add_evidence(failing_pods::since(failing, self.now).to_string());
        holder.add_evidence(failing_pods::words(failing).to_string());
        holder.steps = failing_pods::steps(self.evidence, failing);
        holder
    }
}

/// Returns whether the step belongs to what the pod should do.
fn is_in(failing: &FailingPod, direction: Direction) -> bool {
    match direction {
        Direction::Ends => failing.step.is_of_end(),
        Direction::Starts => !failing.step.is_of_end(),
        Direction::Unknown => true,
        Direction::Runs | Direction::HasEnded => false,
    }
}
