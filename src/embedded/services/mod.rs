//! What runs inside Argo's images: `eventsource-service`, `sensor-service`, the workflow executor.
//!
//! The same functions run in process on a thread of their own, and as children (`eventlab argo sensor-service`).
