//! The controllers: eventbus, eventsource, sensor, deployment, workflow, scheduler, garbage.
//!
//! Each is a client of the API like any other, under its own service account; none touches the store.
