//! The loop in this process: a real session on the embedded cluster, keys in, frames read from memory.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use eventlab::cluster::Cluster;
use eventlab::embedded::cluster::{EmbeddedCluster, EmbeddedConfig};
use eventlab::kinds;
use eventlab::lab::Catalog;
use eventlab::runner::driver::Driver;
use eventlab::runner::work::Patience;
use eventlab::session::files::Opened;
use eventlab::session::{SessionFiles, State};
use eventlab::tui::app::App;
use eventlab::tui::screen::{End, Screen};
use eventlab::tui::terminal::{Events, Surface};
use eventlab::tui::theme::Theme;
use eventlab::tui::view;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

/// A hang guard, far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Default)]
struct Seen {
    text: String,
    frames: u64,
    copied: VecDeque<String>,
    lent: u32,
}

/// A surface in memory; what is drawn is shared with the script.
struct Memory {
    terminal: Terminal<TestBackend>,
    seen: Arc<Mutex<Seen>>,
    input: Arc<AsyncMutex<mpsc::UnboundedReceiver<Event>>>,
}

impl Surface for Memory {
    fn size(&mut self) -> io::Result<Size> {
        Ok(Size::new(100, 40))
    }

    fn draw(&mut self, state: &State, app: &App) -> io::Result<()> {
        self.terminal
            .draw(|frame| view::draw(frame, state, app))
            .unwrap();
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let rows = buffer.content.chunks(width);
        let text: Vec<String> = rows
            .map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect())
            .collect();
        let mut seen = self.seen.lock().unwrap();
        seen.text = text.join("\n");
        seen.frames += 1;
        Ok(())
    }

    fn events(&mut self) -> Events {
        let input = Arc::clone(&self.input);
        Box::pin(futures::stream::unfold(input, |input| async move {
            let event = input.lock().await.recv().await?;
            Some((Ok(event), input))
        }))
    }

    fn lend(&mut self) {
        self.seen.lock().unwrap().lent += 1;
    }

    fn take_back(&mut self, _mouse: bool) -> io::Result<()> {
        Ok(())
    }

    fn copy(&mut self, text: &str) -> bool {
        self.seen.lock().unwrap().copied.push_back(text.to_owned());
        true
    }

    fn mouse(&mut self, _on: bool) -> io::Result<()> {
        Ok(())
    }
}

/// Plays the learner.
struct Script {
    seen: Arc<Mutex<Seen>>,
    keys: mpsc::UnboundedSender<Event>,
}

impl Script {
    fn press(&self, code: KeyCode) {
        self.send(code, KeyModifiers::NONE);
    }

    fn send(&self, code: KeyCode, modifiers: KeyModifiers) {
        let event = Event::Key(KeyEvent::new(code, modifiers));
        self.keys.send(event).unwrap();
    }

    fn typed(&self, text: &str) {
        for character in text.chars() {
            self.press(KeyCode::Char(character));
        }
    }

    fn text(&self) -> String {
        self.seen.lock().unwrap().text.clone()
    }

    async fn wait_for(&self, wanted: &str) {
        let begun = Instant::now();
        while !self.text().contains(wanted) {
            assert!(
                begun.elapsed() < PATIENCE,
                "no {wanted:?} on:\n{}",
                self.text()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the status line below a line says exactly this.
    async fn wait_for_status(&self, above: &str, wanted: &str) {
        let begun = Instant::now();
        loop {
            let text = self.text();
            let at = text.lines().position(|line| line.contains(above));
            let status = at.and_then(|at| text.lines().nth(at + 1)).unwrap_or("?");
            let said = status.trim_start_matches(|character| character != '─');
            if said.trim_matches(['─', ' ']) == wanted {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{said:?} on:\n{text}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn wait_gone(&self, unwanted: &str) {
        let begun = Instant::now();
        while self.text().contains(unwanted) {
            assert!(
                begun.elapsed() < PATIENCE,
                "still {unwanted:?} on:\n{}",
                self.text()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

struct Place {
    dir: tempfile::TempDir,
    embedded: Arc<EmbeddedCluster>,
    catalog: Arc<Catalog>,
}

impl Place {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = EmbeddedConfig {
            state_dir: dir.path().to_owned(),
            program: env!("CARGO_BIN_EXE_eventlab").into(),
            api_port: None,
            bus_tag: None,
        };
        std::fs::create_dir_all(dir.path().join("logs")).unwrap();
        let embedded = Arc::new(EmbeddedCluster::start(config).await.unwrap());
        let labs = dir.path().join("own-labs");
        std::fs::create_dir_all(&labs).unwrap();
        std::fs::write(labs.join("own.yaml"), LAB).unwrap();
        Self {
            catalog: Arc::new(Catalog::folder(&labs).unwrap()),
            dir,
            embedded,
        }
    }

    fn cluster(&self) -> Cluster {
        Cluster::of_embedded(&self.embedded)
    }

    fn copy(&self) -> std::path::PathBuf {
        self.dir.path().join("manifests/filter-path/sensor.yaml")
    }

    /// The session's files; what still runs of a screen that ended holds them a moment longer.
    async fn open(&self) -> Opened {
        let begun = Instant::now();
        loop {
            match SessionFiles::open(self.dir.path(), jiff::Timestamp::now()) {
                Ok(opened) => return opened,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Opens the session, and runs the screen with a script to its end.
    async fn play<F: Future<Output = ()>>(&self, script: impl FnOnce(Script) -> F) -> End {
        let opened = self.open().await;
        let cluster = self.cluster();
        let mut driver = Driver::start(
            opened,
            cluster.clone(),
            Arc::clone(&self.catalog),
            Patience::SCREEN,
        )
        .await
        .unwrap();
        let (keys, input) = mpsc::unbounded_channel();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let memory = Memory {
            terminal: Terminal::new(TestBackend::new(100, 40)).unwrap(),
            seen: Arc::clone(&seen),
            input: Arc::new(AsyncMutex::new(input)),
        };
        let begun = Instant::now();
        let mut screen = Screen::new(
            &mut driver,
            &cluster,
            Theme::new(true, false),
            Path::new(self.dir.path()),
            memory,
        )
        .unwrap();
        let script = script(Script {
            seen: Arc::clone(&seen),
            keys,
        });
        let (end, ()) = tokio::join!(screen.run(), script);
        drop(screen);
        driver.close().await;
        let most = begun.elapsed().as_millis() / 33 + 2;
        let frames = seen.lock().unwrap().frames;
        assert!(
            u128::from(frames) <= most,
            "{frames} frames, at most {most} were due"
        );
        end.unwrap()
    }
}

const LAB: &str = "
name: own
title: Own
summary: A lab of two stages.
event: filter-path
layers: [ready, intake, bus, filter, submit, run, effect]
clusters: [embedded]
links: []
stages:
  - name: send
    kind: send
    title: Send two
    text: Two bodies.
    apply: [base/namespace.yaml, base/accounts.yaml, base/eventbus.yaml, base/eventsource.yaml, base/ledger.yaml, base/process-order.yaml, filter-path/sensor.yaml]
    gate: open
    probes:
      - {name: nested, title: control (nested), control: true, body: '{\"event\":{\"kind\":\"order.created\",\"orderId\":\"n-{{attempt}}\",\"amount\":4200}}', fate: applied}
      - {name: flat, title: order (flat), body: '{\"kind\":\"order.created\",\"orderId\":\"f-{{attempt}}\",\"amount\":4200}', fate: {stops: filter, reason: missing-path}}
  - name: fix
    kind: fix
    title: Mend the filter
    text: Flat orders must pass.
    gate: open
    fix:
      manifest: filter-path/sensor.yaml
      hints: [The path is another one.]
      solution: filter-path/solution.yaml
      wrong:
        - {name: untouched, manifest: filter-path/sensor.yaml, why: The flat order still has no such path., fails: {probe: flat, observed: {stops: filter, reason: missing-path}}}
    probes:
      - {name: flat, title: order (flat), control: true, body: '{\"kind\":\"order.created\",\"orderId\":\"g-{{attempt}}\",\"amount\":4200}', fate: applied}
      - {name: nested, title: old (nested), body: '{\"event\":{\"kind\":\"order.created\",\"orderId\":\"m-{{attempt}}\",\"amount\":4200}}', fate: {stops: filter, reason: missing-path}}
";

async fn learn(script: &Script) {
    script.wait_for("wait for the gate, send 2 probes").await;
    // The second press is answered with what runs, and that is not said any more when it has run.
    script.press(KeyCode::Enter);
    script.press(KeyCode::Enter);
    script.wait_for("passed").await;
    script
        .wait_for("order (flat): stopped at filter: no such path")
        .await;
    let counted = "intakes 2 · approved 1 · completed 1 · effects 1";
    script.wait_for(counted).await;
    script.wait_for_status(counted, "").await;

    // A cell opens its line in its surroundings, copies its command, and leads to the log.
    script.press(KeyCode::Down);
    script.typed("lll");
    script.press(KeyCode::Char('o'));
    script.wait_for("in its surroundings").await;
    script.wait_for("{\"level\":\"warn\"").await;
    script.press(KeyCode::Char('y'));
    script.wait_for("copied: kubectl").await;
    assert!(script.seen.lock().unwrap().copied[0].contains("logs"));
    script.press(KeyCode::Char('o'));
    script.wait_for("orders-sensor-").await;
    script.wait_for("[logs]").await;
    script.press(KeyCode::Char(']'));
    script.press(KeyCode::Char('/'));
    script.typed("zzz-nowhere");
    script.press(KeyCode::Enter);
    script.wait_for("not found: zzz-nowhere").await;

    // Every pane has something to show.
    for (key, part) in [
        ('1', "[evidence]"),
        ('3', "# filter-path/sensor.yaml"),
        ('4', "orders (1)"),
        ('5', "a full column is"),
        ('6', "no right was asked for"),
        ('7', "holds"),
        ('8', "Incident report"),
    ] {
        script.press(KeyCode::Char(key));
        script.wait_for(part).await;
    }
}

/// Reads the evidence by probe, goes on, and mends the filter.
async fn mend(script: Script, copy: std::path::PathBuf, solution: String) {
    script.typed("1f");
    script.wait_for("only flat").await;
    script.press(KeyCode::Char('f'));

    // A passed stage stays until one goes on.
    script.wait_for("stage 1/2").await;
    script.press(KeyCode::Enter);
    script.wait_for("stage 2/2").await;
    script.press(KeyCode::Char('h'));
    script.wait_for("The path is another one.").await;

    // What cannot be read is shown in its place, and corrected there.
    std::fs::write(&copy, solution.replace("kind: Sensor", "kind: a: b")).unwrap();
    script.press(KeyCode::Char('a'));
    script.wait_for("cannot be applied").await;
    script.wait_for(">   2 kind: a: b").await;
    script.press(KeyCode::Enter);
    script.wait_for("YAML error at line 2").await;
    script.press(KeyCode::Esc);
    script
        .wait_for("cannot be applied yet: YAML error at line 2")
        .await;

    // What the solution would flip is shown before it is applied.
    std::fs::write(&copy, solution).unwrap();
    script.press(KeyCode::Char('a'));
    script.wait_for("2 would be judged otherwise").await;
    script
        .wait_for("- FLIPS control (nested): passed, now rejected")
        .await;
    script
        .wait_for("+ FLIPS order (flat): rejected (no such path), now passes")
        .await;
    script.press(KeyCode::Enter);
    script.wait_for("passed").await;
    script.wait_for("old (nested): stopped at filter").await;
    script.send(KeyCode::Char('c'), KeyModifiers::CONTROL);
}

/// The choice for a difference, counted from the first.
const ADOPT: usize = 0;
const REAPPLY: usize = 1;
const RESET: usize = 2;

async fn settle(script: Script, listed: &[&str], downs: usize, after: &str) {
    for part in listed {
        script.wait_for(part).await;
    }
    script.press(KeyCode::Enter);
    script
        .wait_for("The cluster is not as this session left it")
        .await;
    for _ in 0..downs {
        script.press(KeyCode::Down);
    }
    script.press(KeyCode::Enter);
    script.wait_gone("not as this session left it").await;
    script.wait_gone("the cluster differs").await;
    script.wait_for(after).await;
    script.wait_gone("waiting").await;
    script.press(KeyCode::Char('q'));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_is_played_by_keys_and_every_pane_shows_something() {
    let place = Place::new().await;
    let end = place
        .play(|script| async move {
            learn(&script).await;
            script.send(KeyCode::Char('c'), KeyModifiers::CONTROL);
        })
        .await;
    assert_eq!(end, End::Interrupted);
    place.embedded.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_is_previewed_and_differences_are_settled() {
    let place = Place::new().await;
    let solution = place
        .catalog
        .manifest("filter-path/solution.yaml")
        .unwrap()
        .to_owned();
    let copy = place.copy();
    let end = place
        .play(|script| async move {
            learn(&script).await;
            mend(script, copy, solution).await;
        })
        .await;
    assert_eq!(end, End::Interrupted);

    // A Sensor that is deleted while the screen is open, applied again; and a Role that is edited, and edited back.
    let (there, listed) = (&place, ["Sensor/orders is gone"]);
    place
        .play(|script| async move {
            script.wait_for("stage 2/2").await;
            edit_role(there, "list").await;
            script
                .wait_for("the cluster differs: Role/order-submit was changed")
                .await;
            script.press(KeyCode::Enter);
            script.wait_for("- Role/order-submit was changed").await;
            // Who is asked about a difference is told once there is none, and the key that was on its way does nothing.
            edit_role(there, "create").await;
            script.wait_for("Nothing differs any more").await;
            script.press(KeyCode::Enter);
            script.wait_gone("Nothing differs any more").await;
            script.wait_gone("Role/order-submit was changed").await;
            delete_sensor(there).await;
            settle(script, &listed, REAPPLY, "stage 2/2").await;
        })
        .await;
    assert!(sensors(&place).get_opt("orders").await.unwrap().is_some());

    // A Role that was edited, on a cluster of another version: taken as it is, and not said again.
    edit_role(&place, "list").await;
    of_another_version(&place);
    let listed = [
        "Role/order-submit was changed",
        "has version",
        "and had v0.9.0",
    ];
    place
        .play(|script| settle(script, &listed, ADOPT, "stage 2/2"))
        .await;
    assert_eq!(verbs(&place).await, ["list"], "adopting leaves it as it is");
    place.play(nothing_differs).await;

    // What was taken as it is, and is changed again after that, is listed again.
    edit_role(&place, "watch").await;
    let listed = ["Role/order-submit was changed"];
    place
        .play(|script| settle(script, &listed, ADOPT, "stage 2/2"))
        .await;
    place.play(nothing_differs).await;

    // A Sensor that was deleted, taken as it is; then it comes back.
    let applied = sensors(&place).get("orders").await.unwrap();
    delete_sensor(&place).await;
    let listed = ["Sensor/orders is gone"];
    place
        .play(|script| settle(script, &listed, ADOPT, "stage 2/2"))
        .await;
    let sensor = sensors(&place).get_opt("orders").await.unwrap();
    assert!(sensor.is_none(), "adopting leaves the cluster as it is");
    place.play(nothing_differs).await;
    make_anew(&place, applied).await;
    let listed = ["Sensor/orders is there again"];
    place
        .play(|script| settle(script, &listed, ADOPT, "stage 2/2"))
        .await;
    place.play(nothing_differs).await;

    // An account that was deleted: the lab starts over, and everything is as at its beginning.
    accounts(&place)
        .delete("order-sensor", &DeleteParams::default())
        .await
        .unwrap();
    let listed = ["ServiceAccount/order-sensor is"];
    place
        .play(|script| settle(script, &listed, RESET, "stage 1/2"))
        .await;
    place.play(nothing_differs).await;
    place
        .play(|script| async move {
            script.wait_for("wait for the gate, send 2 probes").await;
            script.press(KeyCode::Enter);
            script.wait_for("passed").await;
            script.press(KeyCode::Char('q'));
        })
        .await;
    assert_eq!(
        verbs(&place).await,
        ["create"],
        "the Role is as the lab has it"
    );
    place.embedded.stop().await;
}

async fn nothing_differs(script: Script) {
    script.wait_for("stage ").await;
    assert!(!script.text().contains("differs"), "{}", script.text());
    script.press(KeyCode::Char('q'));
}

fn roles(place: &Place) -> Api<k8s_openapi::api::rbac::v1::Role> {
    let cluster = place.cluster();
    Api::namespaced(cluster.client().clone(), cluster.namespace())
}

fn accounts(place: &Place) -> Api<k8s_openapi::api::core::v1::ServiceAccount> {
    let cluster = place.cluster();
    Api::namespaced(cluster.client().clone(), cluster.namespace())
}

async fn verbs(place: &Place) -> Vec<String> {
    let role = roles(place).get("order-submit").await.unwrap();
    role.rules.unwrap_or_default().remove(0).verbs
}

async fn edit_role(place: &Place, verb: &str) {
    let patch = serde_json::json!([{"op": "replace", "path": "/rules/0/verbs", "value": [verb]}]);
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    roles(place)
        .patch(
            "order-submit",
            &PatchParams::default(),
            &Patch::Json::<()>(patch),
        )
        .await
        .unwrap();
}

/// As if the session had been left on a cluster of another version.
fn of_another_version(place: &Place) {
    let path = place.dir.path().join("checkpoint.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let words = "version Cluster kubernetes - ";
    let at = text.find(words).unwrap() + words.len();
    let end = at + text[at..].find('"').unwrap();
    std::fs::write(&path, format!("{}v0.9.0{}", &text[..at], &text[end..])).unwrap();
}

fn sensors(place: &Place) -> Api<DynamicObject> {
    let cluster = place.cluster();
    Api::namespaced_with(
        cluster.client().clone(),
        cluster.namespace(),
        &kinds::sensor(),
    )
}

/// Makes an object that was deleted once more.
async fn make_anew(place: &Place, object: DynamicObject) {
    let mut anew = DynamicObject::new("orders", &kinds::sensor());
    anew.metadata.labels = object.metadata.labels;
    anew.data = object.data;
    if let Some(data) = anew.data.as_object_mut() {
        data.remove("status");
    }
    sensors(place)
        .create(&Default::default(), &anew)
        .await
        .unwrap();
}

async fn delete_sensor(place: &Place) {
    sensors(place)
        .delete("orders", &DeleteParams::default())
        .await
        .unwrap();
    let begun = Instant::now();
    while sensors(place).get_opt("orders").await.unwrap().is_some() {
        assert!(begun.elapsed() < PATIENCE, "the Sensor stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
