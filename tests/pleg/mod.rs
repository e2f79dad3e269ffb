//! The PLEG engine: case by case, against recordings of real kubelets, and by property.

mod evented;
mod evented_recordings;
mod generic;
mod generic_recordings;
mod node;
mod properties;
mod recording;
mod reinspection;
mod reports;
mod scripted;
mod worker;
