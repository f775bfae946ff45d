//! Questions through the C functions, as the Python package asks them.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use vramtape_lab::{
    Question, vramtape_lab_ask, vramtape_lab_close, vramtape_lab_reply, vramtape_lab_wait,
};

/// No answer here takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(60);

struct Asked(*mut Question);

impl Asked {
    fn new(arguments: &[&str]) -> Self {
        let texts: Vec<_> =
            arguments.iter().map(|text| CString::new(*text).expect("no NUL")).collect();
        let texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        // SAFETY: so many terminated strings, which live until the end of the call.
        let question = unsafe { vramtape_lab_ask(texts.as_ptr(), texts.len(), 2) };
        assert!(!question.is_null(), "a thread can be started");
        Self(question)
    }

    /// Whether it is finished, and how far it is.
    fn look(&self, milliseconds: u32) -> (bool, u64, u64) {
        let (mut done, mut total) = (0, 0);
        // SAFETY: the question is open, and there is room for both numbers.
        let finished =
            unsafe { vramtape_lab_wait(self.0, milliseconds, &raw mut done, &raw mut total) };
        (finished == 1, done, total)
    }

    fn reply(&self) -> serde_json::Value {
        let begun = Instant::now();
        while !self.look(50).0 {
            assert!(begun.elapsed() < LIMIT, "no reply");
        }
        // SAFETY: the question is open and finished, and this is the only thread that has it.
        let reply = unsafe { vramtape_lab_reply(self.0) };
        // SAFETY: a terminated string that lives until the question is closed.
        let reply = unsafe { CStr::from_ptr(reply) };
        serde_json::from_slice(reply.to_bytes()).expect("JSON")
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // SAFETY: closed once.
        unsafe { vramtape_lab_close(self.0) };
    }
}

fn tape(name: &str) -> String {
    let tapes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tapes");
    tapes.join(name).display().to_string()
}

#[test]
fn a_reply_has_the_json_that_the_command_prints() {
    let run = tape("one-shot-side-stream.vtape");
    let reply = Asked::new(&["replay", "--json", "--config=", &run]).reply();
    assert!(reply["error"].is_null(), "{reply}");
    let answer = reply["answer"].as_str().expect("text");
    let answer: serde_json::Value = serde_json::from_str(answer).expect("JSON");
    assert_eq!(answer["strategy"], "native");
    assert!(answer["peak_reserved_bytes"].as_u64() > Some(0), "{answer}");
}

#[test]
fn an_error_is_a_text_without_what_helps_only_at_a_terminal() {
    let errors = [
        (vec!["replay", "--json", "nowhere.vtape"], "cannot read nowhere.vtape"),
        (vec!["replay", "--json", "--strategy=x", "a"], "there is no strategy `x`"),
        (vec!["what"], "unrecognized subcommand 'what'"),
    ];
    for (arguments, expected) in errors {
        let reply = Asked::new(&arguments).reply();
        let error = reply["error"].as_str().expect("an error").to_owned();
        assert!(error.contains(expected) && !error.contains("--help"), "{error}");
        assert!(reply["answer"].is_null(), "{reply}");
    }
}

#[test]
fn a_question_given_up_ends_and_no_thread_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("problem.csv");
    fs::write(&run, problem(5_000)).expect("a problem of minimalloc");
    // Which capacities are enough under this setting only a replay of each can say: hours of them.
    let run = run.display().to_string();
    let config = "--config=garbage_collection_threshold:0.5";
    let question = Asked::new(&["fit", "--json", "--checks=1000000", config, &run]);
    let begun = Instant::now();
    while question.look(10).1 == 0 {
        assert!(begun.elapsed() < LIMIT, "it does not begin");
    }
    drop(question);
    while threads_named("vramtape lab") > 0 {
        assert!(begun.elapsed() < LIMIT, "it goes on");
        thread::sleep(Duration::from_millis(10));
    }
}

/// So many buffers, some hundred GiB of them at once.
fn problem(buffers: usize) -> String {
    let line = |at: usize| format!("b{at},{at},{},{}\n", at + 500, (at * 7919 % 1000 + 1) << 20);
    "id,lower,upper,size\n".to_owned() + &(0..buffers).map(line).collect::<String>()
}

fn threads_named(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("threads can be listed");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}
