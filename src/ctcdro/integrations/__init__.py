"""Objectives and length-matched batches for other toolkits, one file or folder per toolkit.

Each needs only its toolkit and the lower folders of the package, which never import an integration.
"""
