//! The PLEG engine: case by case, against recordings of real kubelets, and by property.

mod cache;
mod evented;
mod evented_recordings;
mod generic;
mod generic_recordings;
mod properties;
mod recording;
mod reports;
mod scripted;
