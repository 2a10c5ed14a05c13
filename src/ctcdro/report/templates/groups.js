
// Numbers on the map play their utterances.
document.querySelectorAll("#map a").forEach((link) => {
  link.addEventListener("click", () => {
    const audio = document.querySelector(`${link.getAttribute("xlink:href")} audio`);
    document.querySelectorAll("audio").forEach((other) => other.pause());
    audio?.play();
  });
});
