//! Takes WorkflowTaskResults into their nodes: outputs, progress, and whether more is to come.

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::operation::Operation;
use super::status::Outputs;

/// Label that says whether the executor has handed everything over.
const COMPLETED: &str = "workflows.argoproj.io/report-outputs-completed";

impl Operation<'_> {
    /// Takes every result in.
    pub(super) fn fold_results(&mut self) {
        let results: Vec<_> = self.world.results.values().cloned().collect();
        let count = results.len().to_string();
        self.log
            .info("Task-result reconciliation", &[("numObjs", count.as_str())]);
        for result in results {
            self.fold_result(&result);
        }
    }

    fn fold_result(&mut self, result: &DynamicObject) {
        let id = result.name_any();
        let Some(node) = self
            .wf
            .status
            .nodes
            .get_mut(&id)
            .filter(|node| node.task_result_synced.is_some())
        else {
            return;
        };
        match result.labels().get(COMPLETED).map(String::as_str) {
            Some("true") => node.task_result_synced = Some(true),
            Some("false") => node.task_result_synced = Some(false),
            _ => {}
        }
        let outputs: Option<Outputs> = result
            .data
            .get("outputs")
            .cloned()
            .and_then(|value| serde_json::from_value(value).ok());
        if let Some(mut outputs) = outputs.filter(Outputs::has_any) {
            let former = node.outputs.take();
            // The exit code is the controller's own observation.
            outputs.exit_code = outputs
                .exit_code
                .or_else(|| former.and_then(|former| former.exit_code));
            node.outputs = Some(outputs);
        }
        if let Some(progress) = result.data["progress"]
            .as_str()
            .filter(|text| super::progress::parse(text).is_some())
        {
            progress.clone_into(&mut node.progress);
        }
    }
}
