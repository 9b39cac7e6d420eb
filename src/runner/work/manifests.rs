//! Applies the manifests of a stage, as the learner has edited them.

use super::{Worker, environment};
use crate::cluster::{self, ApplyError, Fingerprint, Manifest};
use crate::kinds;
use crate::runner::applying::{self, rename_dependencies};
use crate::runner::{fault, looking};
use crate::session::message::StepError;
use crate::session::uses_working_copy;

impl Worker {
    /// Answers how what it applied differs from the lab's own files, as a diff; `None` where it does not. What it has changed
    /// is in `fingerprints`, however it ended.
    pub(super) async fn apply(
        &self,
        lab: &str,
        stage: &str,
        attempt: u32,
        files: &[String],
        fingerprints: &mut Vec<String>,
    ) -> Result<Option<String>, StepError> {
        let mut manifests = Vec::new();
        let mut texts = Vec::new();
        for file in files {
            let text = self.text(lab, stage, file)?;
            let read = Manifest::read(file, &text).map_err(|error| refused(error.to_string()))?;
            self.check_edit(file, &text, &read)?;
            manifests.extend(read);
            texts.push((file, text));
        }
        if self.is_afresh(lab, stage) {
            self.delete_sensor().await?;
            let sensor = kinds::sensor();
            let gone = Fingerprint::gone(&sensor.api_version, &sensor.kind, looking::SENSOR);
            fingerprints.push(gone.to_string());
        }
        let suffix = self.cluster.attempt_suffix(lab, attempt);
        for manifest in &mut manifests {
            // Before anybody can write a word of it.
            let secrets = cluster::texts_in(manifest);
            if !secrets.is_empty() {
                texts.retain(|(file, _)| **file != manifest.file);
            }
            self.observer.hide(secrets);
            rename_dependencies(manifest, &suffix);
            fault::point("between objects", || format!("{lab} {}", manifest.title()));
            let applied = self
                .cluster
                .apply(manifest)
                .await
                .map_err(|error| not_applied(&manifest.file, &error))?;
            tracing::info!(object = manifest.title(), change = ?applied.change, "applied");
            fingerprints.push(applied.fingerprint.to_string());
        }
        match self.cluster.server_fingerprint().await {
            Ok(server) => fingerprints.push(server.to_string()),
            Err(error) => tracing::warn!(%error, "the cluster's version is not kept"),
        }
        for file in files {
            let own: Vec<&Manifest> = manifests.iter().filter(|one| one.file == *file).collect();
            let mut gone = Vec::new();
            let withdrawn = self.cluster.withdraw_grants(file, &own, &mut gone).await;
            fingerprints.extend(gone.iter().map(ToString::to_string));
            withdrawn.map_err(environment)?;
        }
        // Without the files that hold a Secret.
        let mut change = String::new();
        for (file, text) in texts {
            if let Err(error) = self.copies.note_applied(file, &text) {
                tracing::warn!(%error, "noting what was applied");
            }
            let original = self.catalog.manifest(file).unwrap_or_default();
            change.push_str(&applying::change(file, original, &text));
        }
        self.focus(lab, stage, attempt).await;
        Ok((!change.is_empty()).then_some(change))
    }

    /// An edit holds what it is an edit of; else the cluster would be judged as somebody else left it.
    fn check_edit(&self, file: &str, text: &str, edited: &[Manifest]) -> Result<(), StepError> {
        let original = self.catalog.manifest(file).unwrap_or_default();
        if original == text {
            return Ok(());
        }
        let original = Manifest::read(file, original).unwrap_or_default();
        match applying::misfit(file, &original, edited) {
            Some(misfit) => Err(refused(misfit)),
            None => Ok(()),
        }
    }

    /// Whether the stage wants a Sensor of which nothing was there before.
    fn is_afresh(&self, lab: &str, stage: &str) -> bool {
        let lab = self.catalog.lab(lab);
        lab.is_ok_and(|lab| {
            let mut stages = lab.stages.iter();
            stages.any(|one| one.name == stage && one.afresh)
        })
    }

    /// The working copy from the stage on that edits it, else the lab's own text.
    fn text(&self, lab: &str, stage: &str, file: &str) -> Result<String, StepError> {
        let edited = self
            .catalog
            .lab(lab)
            .is_ok_and(|lab| uses_working_copy(lab, stage, file));
        if !edited {
            let original = self.catalog.manifest(file).map(str::to_owned);
            return original.map_err(environment);
        }
        match self.copies.read(file) {
            Ok(Some(text)) => Ok(text),
            Ok(None) => {
                let original = self.catalog.manifest(file).map(str::to_owned);
                original.map_err(environment)
            }
            Err(error) => Err(environment(error)),
        }
    }

    /// The manifests that the learner edits in a lab: of all others the lab's own text is what was applied.
    fn edited(&self, lab: &str) -> Vec<&str> {
        let lab = self.catalog.lab(lab).into_iter();
        lab.flat_map(|lab| &lab.stages)
            .filter_map(|stage| Some(stage.fix.as_ref()?.manifest.as_str()))
            .collect()
    }

    /// Only for comparing: where it cannot be kept, nothing is compared.
    pub(super) fn keep_applied(&self, lab: &str, snapshot: &str) {
        let kept = self.copies.keep_applied(snapshot, &self.edited(lab));
        if let Err(error) = kept {
            tracing::warn!(%error, snapshot, "noting what was applied");
        }
    }

    /// The cluster is as it was at a snapshot, and so is what was applied.
    pub(super) fn put_back_applied(&self, lab: &str, snapshot: &str) {
        let put = self.copies.put_back_applied(snapshot, &self.edited(lab));
        if let Err(error) = put {
            tracing::warn!(%error, snapshot, "noting what was applied");
        }
    }

    pub(super) fn open_copy(&self, file: &str) -> Result<(), StepError> {
        let original = self.catalog.manifest(file).map_err(environment)?;
        self.copies.open(file, original).map_err(environment)?;
        Ok(())
    }
}

/// A failure of what was applied, unless it says nothing of it.
fn not_applied(file: &str, error: &ApplyError) -> StepError {
    let text = format!("{file}: {error}");
    if error.is_of_the_manifest() {
        refused(text)
    } else {
        environment(text)
    }
}

fn refused(text: String) -> StepError {
    StepError {
        reason: "apply-refused".to_owned(),
        text,
        environment: false,
    }
}
