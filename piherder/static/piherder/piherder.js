// Says what htmx leaves unsaid: that the herder does not answer, or refused. Every page works without it.
addEventListener("htmx:afterRequest", ({ detail: { successful, xhr } }) => {
  const now = successful ? "" : xhr.status === 0 ? "lost" : xhr.status >= 500 ? "broken" : "refused";
  for (const line of document.querySelectorAll("#trouble [data-when]")) line.hidden = line.dataset.when !== now;
});
