// Marks the words that are spoken while the recording plays; a click on a word plays the recording from there.
() => {
  // CTC emits a word in few frames, so it stays marked until the next word starts, for at most this many seconds more.
  const LINGER = 0.5;

  const recording = () => document.querySelector("#recording audio");

  const mark = (time) => {
    for (const transcript of document.querySelectorAll(".transcript")) {
      const words = [...transcript.querySelectorAll(".word")];
      const started = words.filter((word) => Number(word.dataset.start) <= time);
      const current = started[started.length - 1];
      const isOver = !current || time > Number(current.dataset.end) + LINGER;
      for (const word of words) word.classList.toggle("spoken", word === current && !isOver);
    }
  };

  const follow = (audio) => {
    mark(audio.currentTime);
    if (!audio.paused && !audio.ended) requestAnimationFrame(() => follow(audio));
  };

  // Events of media elements do not bubble, and the player is replaced with each recording.
  for (const name of ["play", "seeked"]) {
    document.addEventListener(name, (event) => {
      if (event.target === recording()) follow(event.target);
    }, true);
  }
  document.addEventListener("click", (event) => {
    const word = event.target.closest?.(".word");
    const audio = recording();
    if (!word || !audio) return;
    audio.currentTime = Number(word.dataset.start);
    audio.play();
  });
}
