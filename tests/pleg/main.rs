//! The engine without a wire: an in-memory runtime, a clock that stands still, recorded kubelets.

mod evented_recordings;
mod generic_recordings;
mod recording;
mod scripted;
