//! Incident report (Markdown), JSON and JUnit, from evidence alone.
