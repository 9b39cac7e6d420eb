use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use super::*;
use crate::evidence::journal::Note;

fn entries() -> Vec<Entry> {
    vec![Entry::Note(Note {
        time: Timestamp::UNIX_EPOCH,
        lab: "regex".to_owned(),
        stage: "send".to_owned(),
        attempt: 1,
        topic: "applied".to_owned(),
        text: "Authorization: Bearer abcdefghijklmnop".to_owned(),
    })]
}

fn packed() -> Vec<u8> {
    let mut bytes = Vec::new();
    let manifests = BTreeMap::from([(
        "regex/sensor.yaml".to_owned(),
        "kind: Sensor\n# Authorization: Bearer abcdefghijklmnop\n".to_owned(),
    )]);
    let contents = Contents {
        session: "embedded",
        made: Timestamp::UNIX_EPOCH,
        entries: &entries(),
        checkpoint: None,
        labs: &[],
        manifests: &manifests,
    };
    pack(&contents, &mut bytes).unwrap();
    bytes
}

fn open(bytes: &[u8]) -> Result<Bundle, BundleError> {
    Bundle::open(bytes, Limits::default())
}

/// An archive of one entry, whatever its name; `tar` itself would refuse to write some.
fn archive(name: &str, kind: EntryType, size: u64, bytes: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o600);
    let field = &mut header.as_old_mut().name;
    field[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    let mut tar = Vec::new();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(bytes);
    tar.resize(tar.len().next_multiple_of(512) + 1024, 0);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&tar).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn what_was_packed_is_read_again_without_its_secrets() {
    let bundle = open(&packed()).unwrap();
    assert_eq!(bundle.head.session, "embedded");
    assert_eq!(bundle.entries.len(), 1);
    let manifest = &bundle.manifests["regex/sensor.yaml"];
    assert!(manifest.starts_with("kind: Sensor"), "{manifest}");
    let all = format!("{:?} {manifest}", bundle.entries);
    assert!(!all.contains("abcdefghijklmnop"), "{all}");
    assert!(bundle.notes.is_empty(), "{:?}", bundle.notes);
    assert_eq!(bundle.report().labs[0].name, "regex");
    assert!(bundle.state().lab().is_none());
}

#[test]
fn paths_that_lead_out_and_entries_that_are_no_files_are_refused() {
    for name in [
        "../evil",
        "/etc/passwd",
        "manifests/../../x",
        "a\nb",
        "manifests/./x/..",
    ] {
        let error = open(&archive(name, EntryType::Regular, 1, b"x")).unwrap_err();
        assert!(matches!(error, BundleError::Refused(_)), "{name}: {error}");
    }
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Fifo,
        EntryType::Char,
    ] {
        let error = open(&archive("bundle.json", kind, 0, b"")).unwrap_err();
        assert!(
            error.to_string().contains("is not a file"),
            "{kind:?}: {error}"
        );
    }
}

#[test]
fn a_bundle_that_is_too_large_or_has_too_many_files_is_refused() {
    let large = archive("manifests/x", EntryType::Regular, 1 << 40, b"x");
    let error = open(&large).unwrap_err().to_string();
    assert!(error.contains("larger than 256 MiB"), "{error}");
    let limits = Limits {
        bytes: 1 << 20,
        files: 3,
    };
    let error = Bundle::open(packed().as_slice(), limits).unwrap_err();
    assert!(error.to_string().contains("more than 3 files"), "{error}");
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    let mut tar = Builder::new(&mut bomb);
    let zeros = vec![0; 8 << 20];
    let mut header = Header::new_gnu();
    header.set_size(zeros.len() as u64);
    tar.append_data(&mut header, "manifests/zeros", zeros.as_slice())
        .unwrap();
    tar.into_inner().unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let error = Bundle::open(
        bomb.as_slice(),
        Limits {
            bytes: 1 << 20,
            files: 9,
        },
    )
    .unwrap_err();
    assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
}

#[test]
fn a_newer_one_and_one_without_a_head_say_so() {
    let newer = archive("bundle.json", EntryType::Regular, 14, b"{\"version\": 9}");
    assert!(matches!(open(&newer), Err(BundleError::Newer(9))));
    let headless = archive("evidence.jsonl", EntryType::Regular, 1, b"x");
    assert!(
        open(&headless)
            .unwrap_err()
            .to_string()
            .contains("bundle.json")
    );
}

#[test]
fn a_bundle_cut_at_any_byte_is_an_error_or_whole() {
    let bytes = packed();
    for end in 0..bytes.len() {
        // The end of the gzip stream carries nothing but its check sum.
        if let Ok(bundle) = open(&bytes[..end]) {
            assert_eq!(bundle.manifests.len(), 1, "cut at {end}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0_usize..400, with in any::<u8>()) {
        let _ = open(&bytes);
        let mut damaged = packed();
        let length = damaged.len();
        damaged[at % length] = with;
        let _ = open(&damaged);
    }
}
