"""A local web page to try trained models: `ctcdro serve`.

uploads        untrusted recordings -> samples, within limits
recognition    samples -> a result of each model: transcript, languages, posteriorgram
posteriorgram  the figure of label probabilities over time
results        results -> HTML, everything escaped
examples       the worst utterances of the development set
request_guard  which requests the server answers
page           the page, with Gradio
space          a folder for Hugging Face Spaces
"""
