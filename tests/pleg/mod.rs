//! Tests of the PLEG engine: single cases, recordings of real kubelets, and properties.

mod evented;
mod evented_recordings;
mod generic;
mod generic_recordings;
mod node;
mod properties;
mod recording;
mod reinspection;
mod relist_timer;
mod reports;
mod scripted;
