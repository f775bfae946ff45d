//! The screen: draws frames and listens to keys.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::Frame as Screen;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::frame::Frame;
use super::{POLL_EVERY, Watch, draw};

/// The state that keys change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct View {
    /// The device that is shown in detail.
    selected: usize,
    scroll: u16,
    is_over: bool,
}

/// Shows the process until q is pressed or the process ends.
pub(super) fn run(watch: &mut Watch, interval: Duration) -> Result<()> {
    let mut terminal = ratatui::try_init().context("cannot use this terminal; try --once")?;
    let shown = show(&mut terminal, watch, interval);
    ratatui::try_restore().context("cannot restore this terminal; run `reset`")?;
    shown?;
    watch.check()
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    watch: &mut Watch,
    interval: Duration,
) -> io::Result<()> {
    let mut view = View::default();
    let mut frame = watch.frame();
    let mut framed_at = Instant::now();
    loop {
        terminal.draw(|screen| view.draw(&frame, screen))?;
        loop {
            if event::poll(POLL_EVERY)? {
                match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press => {
                        view.press(key, frame.devices.len());
                    }
                    _ => {}
                }
                break;
            }
            watch.poll();
            if framed_at.elapsed() >= interval {
                frame = watch.frame();
                framed_at = Instant::now();
                break;
            }
        }
        if view.is_over || watch.check().is_err() {
            return Ok(());
        }
    }
}

impl View {
    fn press(&mut self, key: KeyEvent, devices: usize) {
        let devices = devices.max(1);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.is_over = true;
            }
            KeyCode::Char('q') | KeyCode::Esc => self.is_over = true,
            KeyCode::Tab | KeyCode::Right => self.selected = (self.selected + 1) % devices,
            KeyCode::BackTab | KeyCode::Left => {
                self.selected = (self.selected + devices - 1) % devices;
            }
            KeyCode::Down => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            _ => {}
        }
    }

    fn draw(&mut self, frame: &Frame, screen: &mut Screen) {
        let [body, keys] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(screen.area());
        let lines = draw::lines(frame, Some(self.selected), usize::from(body.width));
        let most = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(body.height);
        self.scroll = self.scroll.min(most);
        screen.render_widget(Paragraph::new(lines).scroll((self.scroll, 0)), body);
        let help = if frame.devices.len() > 1 {
            "q quits  tab next device  ↑↓ scroll   █ allocated ▓ pending ▒ cached"
        } else {
            "q quits  ↑↓ scroll   █ allocated ▓ pending ▒ cached"
        };
        screen.render_widget(Line::from(help).dim(), keys);
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{DeviceFrame, EventFrame, PoolFrame, StackFrame};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    const GIB: u64 = 1 << 30;

    fn device(number: u16) -> DeviceFrame {
        DeviceFrame {
            device: number,
            name: "NVIDIA H200".to_owned(),
            is_known: true,
            limit_bytes: Some(80 * GIB),
            reserved_bytes: 40 * GIB,
            allocated_bytes: 20 * GIB,
            active_bytes: 30 * GIB,
            waste_bytes: 10 * GIB,
            to_oom_bytes: Some(40 * GIB),
            events_per_second: 12_345.0,
            lost_by_tape: 7,
            step: Some("step 41".to_owned()),
            pools: vec![PoolFrame {
                pool: "default".to_owned(),
                stream: "0x7f".to_owned(),
                kind: "large",
                segments: 3,
                ..PoolFrame::default()
            }],
            last_events: vec![EventFrame {
                time_ns: 3_723_004_000_000,
                what: "segment of 20.00 MiB allocated".to_owned(),
            }],
            ..DeviceFrame::default()
        }
    }

    fn frame(devices: u16) -> Frame {
        let command = Some("python train.py".to_owned());
        Frame { pid: 4711, command, is_live: true, devices: (0..devices).map(device).collect() }
    }

    fn draw(view: &mut View, frame: &Frame, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|screen| view.draw(frame, screen)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    fn press(view: &mut View, code: KeyCode, devices: usize) {
        view.press(KeyEvent::new(code, KeyModifiers::NONE), devices);
    }

    #[test]
    fn a_screen_shows_the_memory_of_a_device() {
        let screen = draw(&mut View::default(), &frame(1), 80, 24).join("\n");
        for part in [
            "process 4711  python train.py  live",
            "device 0 NVIDIA H200  12.3 k events/s  step 41",
            "allocated 20.00 GiB  active 30.00 GiB  reserved 40.00 GiB of 80.00 GiB",
            "waste 10.00 GiB (25.0 %), largest free 0 B",
            "to out of memory 40.00 GiB",
            "7 records are missing on the process's own tape",
            "default  0x7f    large         3",
            "no stacks recorded",
            "01:02:03.004  segment of 20.00 MiB allocated",
            "q quits",
        ] {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(squeezed(&screen).contains(&squeezed(part)), "no {part:?} in\n{screen}");
        }
    }

    #[test]
    fn the_bar_is_as_long_as_what_the_process_may_have() {
        let screen = draw(&mut View::default(), &frame(1), 80, 24);
        let bar = screen.iter().find(|line| line.contains('█')).unwrap();
        let count = |symbol| bar.chars().filter(|c| *c == symbol).count();
        assert_eq!([count('█'), count('▓'), count('▒'), count('·')], [19, 10, 9, 38]);
    }

    #[test]
    fn the_end_of_the_process_is_shown() {
        let ended = Frame { is_live: false, ..frame(1) };
        let screen = draw(&mut View::default(), &ended, 80, 24).join("\n");
        assert!(screen.contains("the process has ended"), "{screen}");
    }

    #[test]
    fn one_device_is_shown_in_detail_and_the_others_in_brief() {
        let mut view = View::default();
        let details = |view: &mut View| {
            let screen = draw(view, &frame(3), 80, 60);
            let line = |text: &str| screen.iter().position(|line| line.contains(text)).unwrap();
            assert_eq!(screen.iter().filter(|line| line.contains("largest stacks")).count(), 1);
            let before = [line("device 0"), line("device 1"), line("device 2")];
            before.iter().filter(|at| **at < line("largest stacks")).count() - 1
        };
        assert_eq!(details(&mut view), 0);
        press(&mut view, KeyCode::Tab, 3);
        assert_eq!(details(&mut view), 1);
        press(&mut view, KeyCode::Left, 3);
        press(&mut view, KeyCode::Left, 3);
        assert_eq!(details(&mut view), 2);
    }

    #[test]
    fn a_long_screen_scrolls_to_its_end_and_no_further() {
        let mut view = View::default();
        for _ in 0..100 {
            press(&mut view, KeyCode::Down, 1);
        }
        let screen = draw(&mut view, &frame(1), 80, 8).join("\n");
        assert!(screen.contains("01:02:03.004"), "{screen}");
        press(&mut view, KeyCode::Up, 1);
        assert!(view.scroll > 0 && view.scroll < 100);
        assert_eq!(draw(&mut view, &frame(1), 3, 2).len(), 2, "any size is drawn");
    }

    #[test]
    fn every_usual_key_quits() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for key in [control_c, plain(KeyCode::Char('q')), plain(KeyCode::Esc)] {
            let mut view = View::default();
            view.press(key, 1);
            assert!(view.is_over, "{key:?}");
        }
        let mut view = View::default();
        view.press(plain(KeyCode::Char('c')), 1);
        assert!(!view.is_over);
    }

    #[test]
    fn stacks_are_shown_with_their_memory() {
        let mut frame = frame(1);
        frame.devices[0].stacks = vec![StackFrame {
            live_bytes: 5 * GIB,
            blocks: 12,
            frames: vec!["forward model.py:41".to_owned(), "main train.py:7".to_owned()],
        }];
        let screen = draw(&mut View::default(), &frame, 100, 24).join("\n");
        assert!(screen.contains("5.00 GiB      12 blocks  forward model.py:41 < main train.py:7"));
        assert!(!screen.contains("no stacks recorded"), "{screen}");
    }
}
